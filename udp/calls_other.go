//go:build !linux && !darwin

package udp

import (
	"fmt"
	"net"
	"syscall"

	"felix/platform"
)

func trySendMMsg() error { return fmt.Errorf("sendmmsg: %w", platform.ErrNotSupported) }
func tryRecvMMsg() error { return fmt.Errorf("recvmmsg: %w", platform.ErrNotSupported) }

func newSystem(uc *net.UDPConn, _ syscall.RawConn, _ bool, _ Capabilities) system {
	return system{
		newSender:   func() sender { return plainSender{uc} },
		newReceiver: func(slots []incoming) receiver { return plainReceiver{uc, &slots[0]} },
	}
}
