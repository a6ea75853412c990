package udp

import "golang.org/x/sys/unix"

func putFamily(sa *unix.RawSockaddr, family uint8, size int) {
	sa.Len, sa.Family = uint8(size), family
}
