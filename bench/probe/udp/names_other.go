//go:build !darwin

package udpprobe

// Names of the calls that take several messages.
const (
	batchedSend    = "sendmmsg"
	batchedReceive = "recvmmsg"
)
