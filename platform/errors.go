package platform

import "errors"

// ErrNotSupported says that this operating system has no counterpart of what
// was asked for. Retrying does not help. Errors of this package wrap it.
var ErrNotSupported = errors.New("not supported on this platform")

// ErrNoRoute says that the host has no route to the address asked for.
var ErrNoRoute = errors.New("no route to destination")
