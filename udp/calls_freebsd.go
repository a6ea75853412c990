package udp

import "golang.org/x/sys/unix"

const (
	msgTrunc  = unix.MSG_TRUNC
	msgCtrunc = unix.MSG_CTRUNC
)
