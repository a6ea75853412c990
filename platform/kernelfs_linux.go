package platform

import (
	"os"

	"golang.org/x/sys/unix"
)

func bpfFS() Feature { return realRoot.mounted("sys/fs/bpf", "bpffs", unix.BPF_FS_MAGIC) }

func traceFS() Feature {
	f := realRoot.readableMount("sys/kernel/tracing")
	if f.Answer == Yes {
		return f
	}
	if old := realRoot.readableMount("sys/kernel/debug/tracing"); old.Answer == Yes {
		return old
	}
	return f
}

func (r hostRoot) readableMount(dir string) Feature {
	f := r.mounted(dir, "tracefs", unix.TRACEFS_MAGIC)
	if f.Answer != Yes {
		return f
	}
	if _, err := os.ReadDir(r.path(dir + "/events/sched")); err != nil {
		return no("tracefs on /"+dir+" cannot be read", err)
	}
	return f
}

func (r hostRoot) mounted(dir, name string, magic int64) Feature {
	var st unix.Statfs_t
	if err := unix.Statfs(r.path(dir), &st); err != nil {
		return no("/"+dir, err)
	}
	if int64(uint32(st.Type)) != magic {
		return no(name+" is not mounted on /"+dir, nil)
	}
	return yes(name + " is mounted on /" + dir)
}

func kernelBTF() Feature { return realRoot.btf() }

func (r hostRoot) btf() Feature {
	const path = "sys/kernel/btf/vmlinux"
	f, err := os.Open(r.path(path))
	if os.IsNotExist(err) {
		return no("the kernel offers no /"+path, nil)
	}
	if err != nil {
		return unknown("/"+path, err)
	}
	defer func() { _ = f.Close() }() // only read from
	var head [2]byte
	if _, err := f.Read(head[:]); err != nil {
		return no("/"+path+" cannot be read", err)
	}
	// 0xEB9F in either byte order (linux/btf.h, BTF_MAGIC).
	if head != [2]byte{0x9f, 0xeb} && head != [2]byte{0xeb, 0x9f} {
		return no("/"+path+" is not BTF", nil)
	}
	return yes("/" + path)
}
