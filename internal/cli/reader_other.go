//go:build !linux

package cli

// watchReader does nothing here: the next write tells that the reader is gone.
func watchReader(any, func()) (stop func()) { return func() {} }
