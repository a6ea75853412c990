package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"felix/broker/session"
)

// Stop drains and stops the broker within shutdown_drain_timeout_ms: not
// ready, no new connections, open requests answered, queues drained, then
// everything closed in the reverse order of the start. When ctx ends, or the
// budget is used up, the rest is cut short and the error wraps ErrAborted.
// Later calls wait for the first one and return its result.
func (d *Daemon) Stop(ctx context.Context) error {
	d.stopOnce.Do(func() {
		begin := time.Now()
		d.ready.set(phaseDraining)
		d.log.Info("stopping", "budget", millis(d.cfg.ShutdownDrainTimeoutMS))
		ctx, cancel := context.WithTimeoutCause(ctx, millis(d.cfg.ShutdownDrainTimeoutMS), errBudget)
		defer cancel()
		d.stopErr = d.unwind(ctx)
		d.log.Info("stopped", logTook, time.Since(begin).Round(time.Millisecond))
	})
	return d.stopErr
}

var errBudget = errors.New("shutdown_drain_timeout_ms used up")

// unwind undoes the start, newest step first. Every step runs; a step that was
// cut short or failed is logged by name.
func (d *Daemon) unwind(ctx context.Context) error {
	var errs []error
	for i := len(d.stops) - 1; i >= 0; i-- {
		step := d.stops[i]
		err := step.stop(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %s: %w", ErrAborted, step.name, context.Cause(ctx))
		} else {
			err = fmt.Errorf("stop %s: %w", step.name, err)
		}
		d.log.Warn("stop step failed", logStep, step.name, logError, err)
		errs = append(errs, err)
	}
	d.cancel()
	d.stops = nil
	return errors.Join(errs...)
}

// stopBackground ends the goroutines that belong to no step and waits for
// them. The listener is closed by then, so every connection has ended.
func (d *Daemon) stopBackground() {
	d.cancel()
	d.work.Wait()
}

// drain ends the connections gracefully: see session.Server.Drain. Clients that
// were still sending when the grace was over are no failure of the shutdown.
func (d *Daemon) drain(ctx context.Context) error {
	d.listener.StopAccepting()
	err := d.server.Drain(ctx)
	var cut *session.DrainError
	if errors.As(err, &cut) {
		d.log.Warn("clients were cut off", "busy_streams", cut.Streams, "unfinished_subscriptions", cut.Subscriptions)
		return nil
	}
	return err
}
