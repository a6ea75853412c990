package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"felix/wire"
)

// control is an authenticated control stream.
type control struct {
	link  *link
	st    stream
	fr    *wire.FrameReader
	flags wire.Flags // what the broker knows
}

// abandon gives up both directions.
func (c *control) abandon() {
	c.st.CancelRead(0)
	c.st.CancelWrite(0)
}

// send writes one message.
func (c *control) send(m wire.Message) error {
	frame, err := wire.AppendMessageFrame(nil, m)
	if err != nil {
		return err
	}
	_, err = c.st.Write(frame)
	return err
}

// receive reads one message. Other frames are an error.
func (c *control) receive() (wire.Message, error) {
	f, err := c.fr.Next()
	if err != nil {
		return nil, err
	}
	return message(f)
}

func message(f wire.Frame) (wire.Message, error) {
	if f.Flags != 0 {
		return nil, fmt.Errorf("%w %#x", wire.ErrUnsupportedFlags, uint16(f.Flags))
	}
	return wire.ParseMessage(f.Payload())
}

// past is a deadline that makes a blocked read or write return.
var past = time.Unix(1, 0)

// errNoAnswer: a request was not answered within Config.RequestTimeout.
var errNoAnswer error = noAnswerError{}

type noAnswerError struct{}

func (noAnswerError) Error() string { return "no answer from the broker in time" }
func (noAnswerError) Timeout() bool { return true }

// guard makes reads and writes of st fail when ctx is done or d has passed, until the returned function is called.
func guard(ctx context.Context, st stream, d time.Duration) (release func()) {
	limit := time.Now().Add(d)
	setDeadlines(st, limit)
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		setDeadlines(st, past)
		close(fired)
	})
	return func() {
		if !stop() {
			<-fired
		}
		setDeadlines(st, time.Time{})
	}
}

// setDeadlines sets both deadlines of a stream. Setting them cannot fail on a QUIC stream.
func setDeadlines(st stream, t time.Time) {
	_ = st.SetReadDeadline(t)
	_ = st.SetWriteDeadline(t)
}

// streamErr explains why an exchange on a control stream failed.
func streamErr(ctx context.Context, op string, err error) error {
	var protocol *wire.MessageError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &ConnectionError{Op: op, Err: errNoAnswer}
	case errors.Is(err, io.EOF):
		return &ConnectionError{Op: op, Err: errors.New("the broker closed the stream without an answer")}
	case errors.As(err, &protocol), errors.Is(err, wire.ErrUnsupportedFlags), errors.Is(err, wire.ErrBadMagic),
		errors.Is(err, wire.ErrBadVersion), errors.Is(err, io.ErrUnexpectedEOF):
		return &ProtocolError{Op: op, Detail: "unreadable answer", Err: err}
	}
	return &ConnectionError{Op: op, Err: err}
}

// unexpected is the error for a message that has no place in an exchange.
func unexpected(op string, m wire.Message) error {
	return &ProtocolError{Op: op, Detail: fmt.Sprintf("unexpected message %q", m.Type())}
}

// openControl opens a stream on l and authenticates it. A refused token is replaced once if there is a TokenSource.
func (c *Client) openControl(ctx context.Context, l *link) (*control, error) {
	token, err := c.tokens.get(ctx, "")
	if err != nil {
		return nil, err
	}
	ctl, err := c.authenticate(ctx, l, token)
	var refused *AuthError
	if !errors.As(err, &refused) || c.cfg.TokenSource == nil {
		return ctl, err
	}
	if token, err = c.tokens.get(ctx, token); err != nil {
		return nil, err
	}
	return c.authenticate(ctx, l, token)
}

func (c *Client) authenticate(ctx context.Context, l *link, token string) (*control, error) {
	const op = "authenticate"
	openCtx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	st, err := l.conn.OpenStream(openCtx)
	if err != nil {
		if ctx.Err() == nil && openCtx.Err() != nil {
			err = errNoAnswer
		}
		return nil, streamErr(ctx, "open stream", err)
	}
	ctl := &control{link: l, st: st, fr: wire.NewFrameReader(st, c.cfg.MaxFrameBytes)}
	defer guard(ctx, st, c.cfg.RequestTimeout)()
	if err = ctl.login(c.cfg.Tenant, token); err != nil {
		ctl.abandon()
		var (
			refused  *AuthError
			server   *ServerError
			protocol *ProtocolError
		)
		if errors.As(err, &refused) || errors.As(err, &server) || errors.As(err, &protocol) {
			return nil, err
		}
		return nil, streamErr(ctx, op, err)
	}
	return ctl, nil
}

// login is the exchange that every stream starts with.
func (c *control) login(tenant, token string) error {
	known := uint16(wire.KnownFlags)
	if err := c.send(&wire.Auth{TenantID: tenant, Token: token, ClientFlags: &known}); err != nil {
		return err
	}
	m, err := c.receive()
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *wire.AuthOK:
		c.flags = wire.Flags(m.ServerFlags)
	case *wire.OK:
		c.flags = wire.LegacyFlags
	case *wire.Error:
		return refusal(m.Message)
	default:
		return unexpected("authenticate", m)
	}
	return nil
}

// tokens keeps the token in use.
type tokens struct {
	source func(context.Context) (string, error) // nil: a fixed token
	busy   chan struct{}                         // holds a value while source is being asked
	token  string                                // guarded by busy
}

func newTokens(cfg Config) *tokens {
	t := &tokens{source: cfg.TokenSource, busy: make(chan struct{}, 1)}
	if t.source == nil {
		t.token = cfg.Token
	}
	return t
}

// get returns the token. One that equals refused is replaced first, if there is a source.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	if t.source == nil {
		return t.token, nil
	}
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if t.token != "" && t.token != refused {
		return t.token, nil
	}
	token, err := t.source(ctx)
	if err != nil {
		return "", fmt.Errorf("felix: token source: %w", err)
	}
	t.token = token
	return token, nil
}
