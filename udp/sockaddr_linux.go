package udp

import "golang.org/x/sys/unix"

func putFamily(sa *unix.RawSockaddr, family uint16, _ int) { sa.Family = family }
