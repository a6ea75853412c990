//go:build !unix

package platform

import "runtime"

const osName = runtime.GOOS

// kernelRelease has no source here, so the version stays unparsed.
func kernelRelease() string { return "" }
