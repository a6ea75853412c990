// Package udp provides batched UDP sockets for QUIC: several datagrams a
// system call each way, kernel segmentation and coalescing where the host has
// them, and a counter for every datagram that the kernel refuses or drops.
package udp
