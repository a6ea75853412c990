package platform

import (
	"fmt"
	"runtime"
	"syscall"
	_ "unsafe" // go:linkname
)

// QoS classes of <sys/qos.h>.
const (
	qosUserInteractive = 0x21
	qosDefault         = 0x15
)

// pinThread sets the QoS class through libSystem's
// pthread_set_qos_class_self_np(qos_class_t, int relative_priority). It is
// called without cgo, the way golang.org/x/sys/unix calls libSystem: a dynamic
// import, a jump in qos_darwin.s, and the runtime's switch to the system stack.
func pinThread(cpu int) (func(), error) {
	if cpu < 0 {
		return nil, fmt.Errorf("pin thread: cpu %d out of range", cpu)
	}
	runtime.LockOSThread()
	if err := setThreadQoS(qosUserInteractive); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin thread: qos class: %w", err)
	}
	return func() {
		if err := setThreadQoS(qosDefault); err != nil {
			// Left locked: the thread then ends with its goroutine.
			return
		}
		runtime.UnlockOSThread()
	}, nil
}

// setThreadQoS returns the function's result, which is an error number itself
// (EINVAL: no such class; EPERM: the thread left the QoS system).
func setThreadQoS(class uintptr) error {
	r, _, _ := syscall_syscall(libc_pthread_set_qos_class_self_np_trampoline_addr, class, 0, 0)
	if errno := int32(r); errno != 0 { // the upper half of a C int's register is undefined
		return syscall.Errno(errno)
	}
	return nil
}

//go:linkname syscall_syscall syscall.syscall
func syscall_syscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)

var libc_pthread_set_qos_class_self_np_trampoline_addr uintptr

//go:cgo_import_dynamic libc_pthread_set_qos_class_self_np pthread_set_qos_class_self_np "/usr/lib/libSystem.B.dylib"
