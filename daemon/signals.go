package daemon

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// serveWithSignals runs a broker until SIGTERM or SIGINT, which drain it; a
// second one ends it at once. SIGHUP reloads the settings.
func serveWithSignals(o Options) error {
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(end)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	starting, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	go func() { // a signal during the start ends it
		select {
		case s := <-end:
			end <- s
			cancel()
		case <-started:
		}
	}()
	d, err := Start(starting, o)
	close(started)
	if err != nil {
		if starting.Err() != nil {
			return nil // stopped before it had begun
		}
		return err
	}
	for {
		select {
		case <-hup:
			if err := d.Reload(); err != nil {
				o.Log.Error("reload failed, the old settings stay in force", logError, err)
			}
		case s := <-end:
			o.Log.Info("signal", "signal", s.String())
			return stopOnSecond(d, end)
		case err := <-d.Failed():
			return errors.Join(err, stopOnSecond(d, end))
		}
	}
}

// stopOnSecond drains d until it is done or another signal comes.
func stopOnSecond(d *Daemon, end <-chan os.Signal) error {
	ctx, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	stopped := make(chan error, 1)
	go func() { stopped <- d.Stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case s := <-end:
		abort(errors.New("second signal: " + s.String()))
		return <-stopped
	}
}
