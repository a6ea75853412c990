//go:build unix

package udpprobe

import (
	"fmt"
	"os"
	"syscall"
)

// creditFD is the descriptor under which a child inherits its end of the pipe:
// the first after standard error.
const creditFD = 3

// inheritedPipe opens it. Not blocking, so that reads can have a deadline.
func inheritedPipe() (*os.File, error) {
	if err := syscall.SetNonblock(creditFD, true); err != nil {
		return nil, fmt.Errorf("inherited pipe: %w", err)
	}
	return os.NewFile(creditFD, "credits"), nil
}
