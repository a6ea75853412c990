package bpf

// archSyscallNames is empty: arm64 has only the calls that all processors share.
var archSyscallNames map[int32]string
