package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

func hasCapability(c Capability) Answer {
	if c > 63 {
		return No
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 fills two
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return Unknown
	}
	return AnswerOf(data[c/32].Effective&(1<<(c%32)) != 0)
}

// initUserNS is the inode number of the first user namespace, fixed by the
// kernel (include/linux/proc_ns.h, PROC_USER_INIT_INO = 0xEFFFFFFD).
const initUserNS = "user:[4026531837]"

func initialUserNamespace() Answer { return realRoot.initialUserNamespace() }

func (r hostRoot) initialUserNamespace() Answer {
	link, err := os.Readlink(r.path("proc/thread-self/ns/user"))
	if err != nil {
		return Unknown
	}
	return AnswerOf(link == initUserNS)
}

func initialNetNamespace() Answer { return realRoot.initialNetNamespace() }

// initialNetNamespace goes by net.core.netdev_max_backlog, which the kernel
// registers for the first namespace only (net_core_table in
// net/core/sysctl_net_core.c). Comparing with process 1 would find a container's
// own first process.
func (r hostRoot) initialNetNamespace() Answer {
	if _, err := os.Stat(r.path("proc/sys/net/core")); err != nil {
		return Unknown
	}
	_, err := os.Stat(r.path("proc/sys/net/core/netdev_max_backlog"))
	switch {
	case err == nil:
		return Yes
	case os.IsNotExist(err):
		return No
	}
	return Unknown
}
