package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"felix/transport"
	"felix/wire"
)

// watch follows a connection until it ends, and asks for a sign of life while nothing is received.
func (c *Client) watch(l *link) {
	defer c.lost(l)
	var tick <-chan time.Time
	if c.cfg.ProbeInterval > 0 {
		ticker := time.NewTicker(c.cfg.ProbeInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for heard := uint64(0); ; heard = l.heard.Load() {
		select {
		case <-l.conn.Context().Done():
			return
		case <-tick:
			if l.heard.Load() == heard {
				c.probe(l)
			}
		}
	}
}

// lost takes note of a connection that has ended. A broker that has forgotten one has forgotten all of them, but the others
// may have nothing to send that would make it say so.
func (c *Client) lost(l *link) {
	c.mu.Lock()
	delete(c.links, l)
	others := make([]*link, 0, len(c.links))
	for other := range c.links {
		others = append(others, other)
	}
	c.mu.Unlock()
	if l.closing.Load() {
		return
	}
	cause := context.Cause(l.conn.Context())
	c.count.connectionsLost.Add(1)
	c.log(slog.LevelWarn, "connection lost", "addr", c.cfg.Addr, "error", cause)
	if errors.Is(cause, transport.ErrStatelessReset) {
		for _, other := range others {
			c.spawn(func() { c.probe(other) })
		}
	}
}

// probe sends the smallest thing that a broker takes quietly and that fills a packet which a restarted broker answers with
// a stateless reset. What becomes of it does not matter: a connection that has ended says so itself.
func (c *Client) probe(l *link) {
	ctx, cancel := context.WithTimeout(l.conn.Context(), c.cfg.RequestTimeout)
	defer cancel()
	token, err := c.tokens.get(ctx, "")
	if err != nil {
		return
	}
	frame, err := wire.AppendMessageFrame(nil, &wire.Auth{TenantID: c.cfg.Tenant, Token: token})
	if err != nil {
		return
	}
	st, err := l.conn.OpenUniStream(ctx)
	if err != nil {
		return
	}
	c.count.probes.Add(1)
	_ = st.SetWriteDeadline(time.Now().Add(c.cfg.RequestTimeout))
	if _, err = st.Write(frame); err == nil {
		err = st.CloseWrite()
	}
	if err != nil {
		st.CancelWrite(0)
	}
}
