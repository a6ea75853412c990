package transport

import (
	"context"
	"io"
	"time"

	"github.com/quic-go/quic-go"
)

// Stream is a bidirectional QUIC stream. One goroutine may read while another one writes; further concurrent calls of
// the same kind wait for each other.
type Stream struct{ s *quic.Stream }

// ID returns the number of the stream on its connection (RFC 9000, 2.1).
func (s *Stream) ID() uint64 { return uint64(s.s.StreamID()) }

// Read reads up to len(p) bytes: all that have arrived in order, at least one. Errors: io.EOF after the peer's
// CloseWrite, *StreamError, os.ErrDeadlineExceeded, and what ended the connection (Conn.Err).
func (s *Stream) Read(p []byte) (int, error) { return read(s.s, p) }

// Write writes p and returns when the last of it has been put into packets or copied; p may be reused then. It blocks
// while the peer's window or the path is full. Errors: ErrStreamClosed, *StreamError, os.ErrDeadlineExceeded, and
// what ended the connection.
func (s *Stream) Write(p []byte) (int, error) { return write(s.s, p) }

// CloseWrite ends the writing direction; the peer reads io.EOF after all that was written.
func (s *Stream) CloseWrite() error { return closeWrite(s.s) }

// CancelRead gives up the reading direction and asks the peer to stop sending (STOP_SENDING). Codes go up to 2^62-1.
func (s *Stream) CancelRead(code uint64) { s.s.CancelRead(streamCode(code)) }

// CancelWrite gives up the writing direction; bytes not yet delivered may be lost (RESET_STREAM). After CloseWrite it
// still takes back what has not been delivered. Codes go up to 2^62-1.
func (s *Stream) CancelWrite(code uint64) { s.s.CancelWrite(streamCode(code)) }

// SetReadDeadline makes reads fail from t on; the zero time means never.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.s.SetReadDeadline(t) }

// SetWriteDeadline makes writes fail from t on; the zero time means never.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.s.SetWriteDeadline(t) }

// Context is cancelled when the writing direction has ended, for whatever reason. Its cause is for logs only.
func (s *Stream) Context() context.Context { return s.s.Context() }

// SendStream is a unidirectional stream opened by this end. See Stream for its methods.
type SendStream struct{ s *quic.SendStream }

// ID returns the number of the stream on its connection.
func (s *SendStream) ID() uint64 { return uint64(s.s.StreamID()) }

// Write is Stream.Write.
func (s *SendStream) Write(p []byte) (int, error) { return write(s.s, p) }

// CloseWrite is Stream.CloseWrite.
func (s *SendStream) CloseWrite() error { return closeWrite(s.s) }

// CancelWrite is Stream.CancelWrite.
func (s *SendStream) CancelWrite(code uint64) { s.s.CancelWrite(streamCode(code)) }

// SetWriteDeadline is Stream.SetWriteDeadline.
func (s *SendStream) SetWriteDeadline(t time.Time) error { return s.s.SetWriteDeadline(t) }

// Context is Stream.Context.
func (s *SendStream) Context() context.Context { return s.s.Context() }

// ReceiveStream is a unidirectional stream opened by the peer. See Stream for its methods.
type ReceiveStream struct{ s *quic.ReceiveStream }

// ID returns the number of the stream on its connection.
func (s *ReceiveStream) ID() uint64 { return uint64(s.s.StreamID()) }

// Read is Stream.Read.
func (s *ReceiveStream) Read(p []byte) (int, error) { return read(s.s, p) }

// CancelRead is Stream.CancelRead.
func (s *ReceiveStream) CancelRead(code uint64) { s.s.CancelRead(streamCode(code)) }

// SetReadDeadline is Stream.SetReadDeadline.
func (s *ReceiveStream) SetReadDeadline(t time.Time) error { return s.s.SetReadDeadline(t) }

// maxCode is the largest error code that QUIC can carry (RFC 9000, 16).
const maxCode = 1<<62 - 1

func streamCode(code uint64) quic.StreamErrorCode { return quic.StreamErrorCode(min(code, maxCode)) }

func read(r io.Reader, p []byte) (int, error) {
	n, err := r.Read(p)
	if err != nil && err != io.EOF {
		err = mapError(err)
	}
	return n, err
}

func write(w io.Writer, p []byte) (int, error) {
	n, err := w.Write(p)
	if err != nil {
		err = mapError(err)
	}
	return n, err
}

func closeWrite(c io.Closer) error {
	if err := c.Close(); err != nil {
		return mapError(err)
	}
	return nil
}
