package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Client is a connection to a broker on behalf of one tenant. It is safe for concurrent use.
type Client struct {
	cfg      Config
	dialConn dialFunc
	tokens   *tokens
	life     context.Context // ends when Close gives up the connections
	end      context.CancelFunc
	count    counters
	tasks    sync.WaitGroup // goroutines

	spare  atomic.Pointer[control] // what Connect opened, until the first slot takes it
	slots  []*slot                 // of all pools
	events []*slot
	nextEv atomic.Uint32
	lanes  []*lane
	routes routes
	calls  sync.Pool // of *call
	caches *cachePool

	mu         sync.Mutex
	closed     bool
	links      map[*link]struct{}
	publishers map[*Publisher]struct{}
	subs       map[*Subscription]struct{}
}

// Connect dials the broker and authenticates once, so that a wrong address, certificate or token is reported here. The
// context bounds the attempt; it has no influence on the Client afterwards. Close must be called in the end.
//
// Errors: ErrConfig, *ConnectionError, *AuthError, the error of ctx.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, dialQUIC(cfg))
}

func connect(ctx context.Context, cfg Config, dial dialFunc) (*Client, error) {
	c := &Client{
		cfg: cfg, dialConn: dial, tokens: newTokens(cfg),
		links:      make(map[*link]struct{}),
		publishers: make(map[*Publisher]struct{}),
		subs:       make(map[*Subscription]struct{}),
	}
	c.life, c.end = context.WithCancel(context.Background())
	c.events = newSlots(c, "event", cfg.EventConns)
	c.lanes = newLanes(c)
	c.routes.init(cfg, c.lanes)
	c.calls.New = newCall
	c.caches = newCachePool(c)

	l, err := c.dial(ctx, 0)
	if err != nil {
		c.end()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &ConnectionError{Op: "dial", Err: err}
	}
	ctl, err := c.openControl(ctx, l)
	if err != nil {
		c.shut()
		return nil, err
	}
	c.spare.Store(ctl)
	return c, nil
}

// adopt registers a connection; it is not taken once the client is closed.
func (c *Client) adopt(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.links[l] = struct{}{}
	c.tasks.Go(func() { c.watch(l) })
	return true
}

// spawn starts a goroutine that shut waits for, unless the client has ended.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.tasks.Go(f)
	return true
}

func (c *Client) log(level slog.Level, text string, args ...any) {
	if c.cfg.Logger != nil {
		c.cfg.Logger.Log(context.Background(), level, text, args...)
	}
}

// Close flushes the publishers, waits until everything published is acknowledged and has been read by the broker, and
// ends all subscriptions and connections. The context bounds the waiting; what is not answered by then is given up and
// the context's error returned. Otherwise it returns the errors of the publishers. Further calls do nothing.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	publishers, subs := c.publishers, c.subs
	c.publishers, c.subs = nil, nil
	c.mu.Unlock()

	var errs []error
	for p := range publishers {
		if err := p.Close(ctx); err != nil && ctx.Err() == nil {
			errs = append(errs, err)
		}
	}
	for s := range subs {
		errs = append(errs, s.Close())
	}
	// Every answer comes or is given up within the ack timeout; a broker that does not end the streams after it is not
	// waited for much longer.
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AckTimeout+c.cfg.AckTimeout/stallChecks+c.cfg.RequestTimeout)
	defer cancel()
	for _, l := range c.lanes {
		l.finish()
	}
	for _, l := range c.lanes {
		if l.await(ctx) != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil && c.lanesBusy() {
		errs = append(errs, fmt.Errorf("felix: close: %w", err))
	}
	c.shut()
	return errors.Join(errs...)
}

// lanesBusy reports whether a publish stream still waits for the broker.
func (c *Client) lanesBusy() bool {
	for _, l := range c.lanes {
		if !l.quiet() {
			return true
		}
	}
	return false
}

// shut ends the connections and waits for all goroutines.
func (c *Client) shut() {
	c.mu.Lock()
	c.closed = true
	c.end()
	links := make([]*link, 0, len(c.links))
	for l := range c.links {
		links = append(links, l)
	}
	c.mu.Unlock()
	for _, l := range links {
		l.close()
	}
	c.tasks.Wait()
}

// isClosed reports whether Close was called.
func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
