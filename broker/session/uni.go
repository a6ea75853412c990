package session

import (
	"errors"
	"io"
	"os"

	"felix/broker/auth"
	"felix/wire"
)

// uniStream is a unidirectional stream that a client opened: an auth message,
// and publishes without acks. Nothing is ever answered; what is wrong with the
// stream only shows in the code it is ended with.
type uniStream struct {
	conn   *connection
	stream ReceiveStream
	in     *input
	grants *auth.Grants
	pub    *publisher
}

func newUniStream(c *connection, s ReceiveStream) *uniStream {
	u := &uniStream{conn: c, stream: s, in: newInput(s, c)}
	c.opened(u.in, nil)
	return u
}

func (u *uniStream) run() {
	defer u.conn.closed(u.in)
	if code, ended := u.read(); !ended {
		u.stream.CancelRead(uint64(code))
	}
}

// read handles frames until the client has finished, or else until something
// ends the stream.
func (u *uniStream) read() (code Code, ended bool) {
	if err := u.in.begin(); err != nil {
		return u.inputEnded(err), false
	}
	for {
		f, err := u.in.next()
		if err == io.EOF {
			return CodeNone, true
		}
		if err != nil {
			return u.inputEnded(err), false
		}
		if code := u.frame(f); code != CodeNone {
			return code, false
		}
	}
}

// inputEnded returns the code for a stream of which no further frame can be
// read.
func (u *uniStream) inputEnded(err error) Code {
	count := &u.conn.server.count
	var large *wire.FrameTooLargeError
	switch {
	case errors.As(err, &large):
		count.add(OversizedFrames, 1)
		return CodeFrameTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, wire.ErrBadMagic), errors.Is(err, wire.ErrBadVersion):
		count.add(MalformedFrames, 1)
		return CodeMalformed
	case errors.Is(err, errFrameStalled):
		count.add(FrameTimeouts, 1)
		return CodeFrameTimeout
	case errors.Is(err, errStopped), errors.Is(err, os.ErrDeadlineExceeded) && u.in.isDraining():
		return CodeShuttingDown
	case errors.Is(err, os.ErrDeadlineExceeded):
		count.add(AuthTimeouts, 1)
		return CodeAuthTimeout
	}
	return CodeNone // reset by the client, or the connection is gone
}

// frame handles one frame. CodeNone means that the stream goes on.
func (u *uniStream) frame(f wire.Frame) Code {
	count := &u.conn.server.count
	if f.Flags.Unknown() != 0 {
		count.add(UnsupportedFlags, 1)
		return CodeUnexpected
	}
	if f.Flags.Has(wire.FlagPublishBatch) {
		return u.publishBinary(f)
	}
	m, err := u.in.message(f)
	if errors.Is(err, errStopped) {
		return CodeShuttingDown
	}
	if err != nil {
		count.add(MalformedFrames, 1)
		return CodeMalformed
	}
	a, isAuth := m.(*wire.Auth)
	if isAuth == (u.grants != nil) {
		count.add(AuthMissing, 1)
		return CodeUnauthenticated
	}
	switch m := m.(type) {
	case *wire.Publish:
		return u.publish(m.TenantID, m.Namespace, m.Stream, [][]byte{m.Payload})
	case *wire.PublishBatchJSON:
		return u.publish(m.TenantID, m.Namespace, m.Stream, m.Payloads)
	case *wire.Auth:
		return u.authenticate(a)
	}
	count.add(UnexpectedMessages, 1)
	return CodeUnexpected
}

func (u *uniStream) authenticate(m *wire.Auth) Code {
	grants, err := u.conn.authenticate(m)
	if err != nil {
		return CodeUnauthenticated
	}
	u.grants = grants
	u.pub = newPublisher(u.conn, grants)
	u.in.authenticated()
	return CodeNone
}

// publishBinary handles a publish batch. One that wants an ack does not belong
// here.
func (u *uniStream) publishBinary(f wire.Frame) Code {
	count := &u.conn.server.count
	switch {
	case u.grants == nil:
		count.add(AuthMissing, 1)
		return CodeUnauthenticated
	case f.Flags.Has(wire.FlagPublishAcked):
		count.add(UnexpectedMessages, 1)
		return CodeUnexpected
	}
	b, err := wire.ParsePublishBatch(f.Flags, f.Payload())
	if err != nil {
		count.add(MalformedFrames, 1)
		return CodeMalformed
	}
	to, text := u.pub.resolve(b.TenantID, b.Namespace, b.Stream)
	if text != "" {
		return CodeForbidden
	}
	u.pub.unanswered(to, sharedBatch(f, b))
	return CodeNone
}

// publish handles a JSON publish, whose ack fields mean nothing here.
func (u *uniStream) publish(tenant, namespace, stream string, payloads [][]byte) Code {
	to, text := u.pub.resolve([]byte(tenant), []byte(namespace), []byte(stream))
	if text != "" {
		return CodeForbidden
	}
	batch, err := encodedBatch(payloads)
	if err != nil {
		u.conn.server.count.add(MalformedFrames, 1)
		return CodeMalformed
	}
	u.pub.unanswered(to, batch)
	return CodeNone
}
