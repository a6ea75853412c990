//go:build !linux

package platform

func bpfFS() Feature { return no("Linux only", ErrNotSupported) }

func kernelBTF() Feature { return no("Linux only", ErrNotSupported) }

func traceFS() Feature { return no("Linux only", ErrNotSupported) }
