// Package transport carries QUIC connections for the broker and its clients: it listens, dials, authenticates the
// server with TLS 1.3, hands out streams, and turns what ends them into typed errors.
//
// It is the only package that imports quic-go; none of its types appear in the exported API. Every endpoint sends
// and receives through one [felix/udp] socket. Which application protocol runs on the streams is not known here.
//
// All types are safe for concurrent use unless their comment says otherwise.
package transport
