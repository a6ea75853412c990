package session

import (
	"context"
	"errors"
	"io"
	"os"

	"felix/broker/auth"
	"felix/wire"
)

// controlStream is one bidirectional stream that a client opened.
type controlStream struct {
	conn   *connection
	stream Stream
	in     *input
	out    *replies

	// Set by a successful auth message.
	grants *auth.Grants
	flags  wire.Flags // what the client knows
	pub    *publisher
}

// ending says how a stream ends: with what answer, if any, and with what code.
type ending struct {
	code   Code
	reply  wire.Message
	held   int64       // what the connection was charged for the reply already
	unread int64       // bytes of a refused frame that the client may still be sending
	quiet  bool        // the client has finished sending, or is gone: nobody is to be told
	after  func(error) // called when the answer was written, or could not be
}

// lastRequestUnread is ending.unread after a request that is the last one by the
// protocol: nothing but the client's FIN should follow.
const lastRequestUnread = 4 << 10

// errStopped ends the streams that are still busy at the end of a drain.
var errStopped = errors.New("session: stopped by drain")

func newControlStream(c *connection, s Stream) *controlStream {
	cs := &controlStream{conn: c, stream: s, in: newInput(s, c), out: newReplies(s, c.server, &c.writers)}
	cs.out.held.share, cs.out.gone = c.replyMemory, c.conn.Context().Done()
	// While a stream waits for room, it is not read, but answered.
	cs.in.onWait = func() { _ = cs.out.flush() } // a failure shows when it goes on
	cs.out.onWait = cs.in.release
	c.opened(cs.in, cs.out)
	return cs
}

func (s *controlStream) run() {
	defer s.conn.closed(s.in)
	// Replies that nobody can receive any more are not waited for.
	stop := context.AfterFunc(s.stream.Context(), func() { s.out.fail(errGone) })
	defer stop()
	s.finish(s.read())
}

// read handles frames until the stream is to end.
func (s *controlStream) read() ending {
	if err := s.in.begin(); err != nil {
		return s.inputEnded(err)
	}
	for {
		if !s.in.buffered() {
			if s.out.flush() != nil {
				return ending{}
			}
		}
		f, err := s.in.next()
		if err != nil {
			return s.inputEnded(err)
		}
		if end := s.frame(f); end != nil {
			return *end
		}
		s.in.release()
	}
}

// finish writes what is owed and closes both directions.
func (s *controlStream) finish(end ending) {
	s.in.release()
	if end.reply != nil {
		s.out.push(reply{kind: replyMessage, msg: end.reply, held: end.held})
	}
	err := s.out.finish()
	switch {
	case err == nil:
		// An error means that the stream is gone, as is whoever would be told.
		_ = s.stream.CloseWrite()
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.stream.CancelWrite(uint64(CodeStalled))
	default:
		s.stream.CancelWrite(uint64(CodeNone))
	}
	if end.after != nil {
		end.after(err)
	}
	if end.unread > 0 {
		cfg := &s.conn.server.cfg
		s.in.discard(min(end.unread, cfg.LingerBytes), cfg.LingerTimeout)
	}
	if !end.quiet {
		s.stream.CancelRead(uint64(end.code))
	}
}

// inputEnded says how the stream ends when no further frame can be read.
func (s *controlStream) inputEnded(err error) ending {
	count := &s.conn.server.count
	var large *wire.FrameTooLargeError
	switch {
	case err == io.EOF:
		return ending{quiet: true}
	case errors.Is(err, io.ErrUnexpectedEOF):
		count.add(MalformedFrames, 1)
		return ending{quiet: true}
	case errors.As(err, &large):
		count.add(OversizedFrames, 1)
		end := ending{code: CodeFrameTooLarge, reply: &wire.Error{Message: frameTooLargeText(large, s.grants != nil)}}
		if s.grants != nil {
			end.unread = int64(large.Length)
		}
		return end
	case errors.Is(err, wire.ErrBadMagic), errors.Is(err, wire.ErrBadVersion):
		count.add(MalformedFrames, 1)
		return ending{code: CodeMalformed, reply: &wire.Error{Message: err.Error()}}
	case errors.Is(err, errFrameStalled):
		count.add(FrameTimeouts, 1)
		return ending{code: CodeFrameTimeout, reply: &wire.Error{Message: textFrameTimeout}}
	case errors.Is(err, errStopped), errors.Is(err, os.ErrDeadlineExceeded) && s.in.isDraining():
		return ending{code: CodeShuttingDown}
	case errors.Is(err, os.ErrDeadlineExceeded):
		count.add(AuthTimeouts, 1)
		return ending{code: CodeAuthTimeout, reply: &wire.Error{Message: textAuthTimeout}}
	}
	return ending{quiet: true} // reset by the client, or the connection is gone
}

// frame handles one frame. A nil result means that the stream goes on.
func (s *controlStream) frame(f wire.Frame) *ending {
	if f.Flags.Unknown() != 0 {
		s.conn.server.count.add(UnsupportedFlags, 1)
		s.out.message(&wire.Error{Message: wire.TextUnsupportedFlags})
		return nil
	}
	if f.Flags.Has(wire.FlagPublishBatch) {
		if s.grants == nil {
			return s.authMissing(wire.TextAuthRequired)
		}
		return s.publishBinary(f)
	}
	m, err := s.in.message(f)
	if errors.Is(err, errStopped) {
		return &ending{code: CodeShuttingDown}
	}
	if err != nil {
		s.conn.server.count.add(MalformedFrames, 1)
		return &ending{code: CodeMalformed, reply: &wire.Error{Message: err.Error()}}
	}
	if a, ok := m.(*wire.Auth); ok {
		return s.authenticate(a)
	}
	if s.grants == nil {
		return s.authMissing(wire.TextAuthRequired)
	}
	return s.request(m)
}

// request handles a message of an authenticated client.
func (s *controlStream) request(m wire.Message) *ending {
	switch m := m.(type) {
	case *wire.Publish:
		return s.publishMessage(m)
	case *wire.PublishBatchJSON:
		return s.publishBatchMessage(m)
	case *wire.Subscribe:
		return s.subscribe(m)
	case *wire.CachePut:
		return s.cachePut(m)
	case *wire.CacheGet:
		return s.cacheGet(m)
	}
	s.conn.server.count.add(UnexpectedMessages, 1)
	switch m.(type) {
	case *wire.SubscribeCursorError:
		return fail(CodeUnexpected, wire.TextCursorErrorFromPeer)
	case *wire.Error:
		return &ending{code: CodeUnexpected}
	}
	return fail(CodeUnexpected, wire.TextUnexpectedMessage)
}

// fail ends a stream with an error message.
func fail(code Code, text string) *ending {
	return &ending{code: code, reply: &wire.Error{Message: text}}
}

// authenticate handles an auth message.
func (s *controlStream) authenticate(m *wire.Auth) *ending {
	if s.grants != nil {
		return s.authMissing(wire.TextAuthEstablished)
	}
	grants, err := s.conn.authenticate(m)
	if err != nil {
		return fail(CodeUnauthenticated, wire.TextAuthFailed)
	}
	s.grants, s.flags = grants, wire.LegacyFlags
	s.pub = newPublisher(s.conn, grants)
	// Replies are written when the reader has nothing to do, so also while a
	// publish waits. That they cannot be written shows when it goes on.
	s.pub.onWait = s.in.onWait
	s.in.authenticated()
	if m.ClientFlags == nil {
		s.out.message(&wire.OK{})
		return nil
	}
	s.flags = wire.Flags(*m.ClientFlags)
	s.out.message(&wire.AuthOK{ServerFlags: uint16(wire.KnownFlags)})
	return nil
}

func (s *controlStream) authMissing(text string) *ending {
	s.conn.server.count.add(AuthMissing, 1)
	return fail(CodeUnauthenticated, text)
}

// authenticate checks the token of an auth message.
func (c *connection) authenticate(m *wire.Auth) (*auth.Grants, error) {
	grants, err := c.server.auth.Authenticate(m.TenantID, m.Token)
	if err != nil {
		c.server.count.add(AuthFailed, 1)
		return nil, err
	}
	c.server.count.add(AuthOK, 1)
	c.identified(m.TenantID, grants.Subject())
	return grants, nil
}

// permits checks that a request names the tenant of the stream's token and is
// allowed by it. It returns the error text of the first check that fails.
func (s *controlStream) permits(a auth.Action, tenant, resource string) string {
	switch {
	case tenant != s.grants.Tenant():
		s.conn.server.count.add(Forbidden, 1)
		return wire.TextTenantMismatch
	case !s.grants.Allowed(a, resource):
		s.conn.server.count.add(Forbidden, 1)
		return wire.TextForbidden
	}
	return ""
}
