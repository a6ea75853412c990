package udpprobe

// Names of the calls that take several messages.
const (
	batchedSend    = "sendmsg_x"
	batchedReceive = "recvmsg_x"
)
