package platform

import "fmt"

// BufferLimit is the host-wide bound of one direction of a socket buffer.
type BufferLimit struct {
	// Sysctl is the setting that bounds it.
	Sysctl string `json:"sysctl"`
	// Bytes is its value. On Linux it bounds the size asked for; the kernel
	// then doubles that for its own bookkeeping. On macOS and FreeBSD it bounds
	// the buffer with its bookkeeping, of which about 8/9 are usable.
	Bytes int64 `json:"bytes"`
}

// ReadBufferLimit returns what bounds SO_RCVBUF. A network namespace that does
// not show the setting, which is the host's, gives an error that wraps
// [io/fs.ErrNotExist]; the name is filled in even then.
func ReadBufferLimit() (BufferLimit, error) { return bufferLimit(readLimitSysctl, SysctlInt) }

// WriteBufferLimit returns what bounds SO_SNDBUF; see [ReadBufferLimit].
func WriteBufferLimit() (BufferLimit, error) { return bufferLimit(writeLimitSysctl, SysctlInt) }

func bufferLimit(name string, read func(string) (int64, error)) (BufferLimit, error) {
	if name == "" {
		return BufferLimit{}, fmt.Errorf("socket buffer limit: %w", ErrNotSupported)
	}
	v, err := read(name)
	if err != nil {
		return BufferLimit{Sysctl: name}, fmt.Errorf("socket buffer limit: %w", err)
	}
	return BufferLimit{Sysctl: name, Bytes: v}, nil
}
