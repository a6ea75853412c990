//go:build !unix

package udpprobe

import (
	"fmt"
	"os"

	"felix/platform"
)

// inheritedPipe: descriptors cannot be handed to a child here.
func inheritedPipe() (*os.File, error) {
	return nil, fmt.Errorf("inherited pipe: %w", platform.ErrNotSupported)
}
