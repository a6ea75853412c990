//go:build !linux

package udp

// lacking marks an option that the system has not.
var lacking = optionCode{level: -1}
