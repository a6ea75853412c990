package platform

// UDPSegment reports whether a socket accepts UDP_SEGMENT (Linux 4.18), with
// which one send is cut into many datagrams. Whether the path's device agrees
// shows only when sending: EIO there means no. Linux only; No elsewhere.
func UDPSegment() Feature { return udpSegment.get() }

// UDPGRO reports whether a socket accepts UDP_GRO (Linux 5.0), with which one
// receive returns several datagrams of a flow. Linux only; No elsewhere.
func UDPGRO() Feature { return udpGRO.get() }

// UDPSegmentLimit returns how many segments one send may have: 128, or 64 on
// kernels from before April 2024. It is found by sending 65 one-byte segments
// over loopback, once. Where that could not be tried the answer is Unknown and
// the number the safe 64; where UDPSegment is No the number is 1.
func UDPSegmentLimit() (int, Feature) { return udpSegmentLimit() }

// BufferForce reports whether the process may set socket buffers beyond
// net.core.rmem_max and wmem_max (SO_RCVBUFFORCE, SO_SNDBUFFORCE: CAP_NET_ADMIN
// in the user namespace that owns the network namespace). Linux only; No
// elsewhere.
func BufferForce() Feature { return bufferForce.get() }

// SendMMsg reports whether the system can send several messages with one call:
// sendmmsg, Linux 3.0.
func SendMMsg() Feature { return sendMMsg.get() }

// RecvMMsg reports whether the system can receive several messages with one
// call: recvmmsg, Linux 2.6.33.
func RecvMMsg() Feature { return recvMMsg.get() }

// BPFFS reports whether a BPF file system is mounted on /sys/fs/bpf.
func BPFFS() Feature { return bpfFS() }

// BTF reports whether the kernel describes its own types in
// /sys/kernel/btf/vmlinux, which portable BPF programs need.
func BTF() Feature { return kernelBTF() }

// TraceFS reports whether tracefs is mounted where tools look for it and can
// be read by this process.
func TraceFS() Feature { return traceFS() }
