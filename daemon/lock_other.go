//go:build !unix

package daemon

import "os"

// lockFile does nothing: two brokers on one data directory are not noticed
// on this system.
func lockFile(*os.File) error { return nil }
