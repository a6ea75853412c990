// Package platform answers what this host is and lets a few of its knobs be
// turned: kernel version, sysctls, MTUs, UDP counters, limits, rights, CPUs,
// offloads, and thread placement.
//
// It keeps no descriptor open: a probe that needs a socket opens it, asks, and
// closes it. Shared files hold types and parsers; everything that differs
// between operating systems is in files with an OS suffix. Where a system has
// no counterpart, functions return an error that wraps [ErrNotSupported].
//
// A probe has three answers, see [Answer]: only Yes and No are remembered for
// the life of the process, "could not tell" is asked again.
//
// All functions may be called concurrently. Facts about the network are those
// of the network namespace of the calling thread.
package platform
