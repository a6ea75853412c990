// Package udpprobe measures what batched UDP sockets move over loopback without
// QUIC or a broker: throughput, system calls per datagram, refusals by errno,
// and where datagrams were lost.
//
// A sender and a receiver run in processes of their own, started from the same
// program. Every datagram carries its number, so the receiver knows exactly
// which ones arrived. The receiver tells the sender how far it has come through
// a pipe, and the sender keeps no more in flight than the receive buffer holds:
// a blast without that measures how fast a buffer overflows.
//
// The pipe is inherited by descriptor, so the probe runs on Unix systems only.
package udpprobe
