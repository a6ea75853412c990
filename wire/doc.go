// Package wire is the Felix protocol, version 1, as bytes: the 12-byte frame
// header, the JSON messages, the binary batches and acks, and their limits.
//
// The package does no I/O beyond the io.Reader a FrameReader is given, keeps no
// state between calls and starts no goroutine. Decoders never allocate in
// proportion to a length or count they have not seen the bytes of, and binary
// batches are parsed as views of the frame they came in.
//
// Frame memory belongs to the garbage collector. A FrameReader never writes to
// the memory of a frame again once Next has returned it, so whoever holds the
// frame may keep it for ever and may write inside it, as SharedEventInPlace does
// to turn a publish batch into the event frame that all subscribers share.
//
// docs/protocol.md describes the protocol.
package wire
