//go:build !linux && !darwin && !freebsd

package udp

import (
	"fmt"
	"syscall"

	"felix/platform"
)

var hostPolicy = plainPolicy

// optionCodes: no option is used here.
var optionCodes [numOptions]optionCode

func init() {
	for i := range optionCodes {
		optionCodes[i] = lacking
	}
}

type noOptions struct{}

func newOptions(syscall.RawConn) options { return noOptions{} }

func (noOptions) set(option, int) error {
	return fmt.Errorf("socket option: %w", platform.ErrNotSupported)
}

func (noOptions) get(option) (int, error) {
	return 0, fmt.Errorf("socket option: %w", platform.ErrNotSupported)
}

func (noOptions) dropped() (uint32, bool) { return 0, false }
