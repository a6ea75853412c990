// Package probe holds what the transport probes share. Each probe is a folder
// below: udp measures batched UDP sockets without QUIC, quicprobe QUIC without
// the broker.
//
// A probe either reports a figure it can stand by or refuses with an
// [*InvalidMeasurement].
package probe
