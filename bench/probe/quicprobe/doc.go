// Package quicprobe measures what QUIC moves over loopback without the broker:
// `raw` over one hop, `relay` from a publisher through a relay to a subscriber,
// which is the least that a broker has to do. Every party is a process of its
// own, started from this program by a hidden subcommand.
//
// The measuring process tells its children on their standard input when to
// start and when to report, and reads what they print: JSON objects, one a line
// (see message). A child whose input ends, because the measuring process is
// gone, ends as well.
package quicprobe
