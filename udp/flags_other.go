//go:build !linux && !darwin && !freebsd

package udp

// These systems have no such flags that package net passes on; a buffer of
// maxRead bytes is never too small.
const (
	msgTrunc  = 0
	msgCtrunc = 0
)
