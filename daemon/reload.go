package daemon

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// age is the time since t in seconds.
func age(t time.Time) float64 { return time.Since(t).Seconds() }

// Config returns the settings in force.
func (d *Daemon) Config() Config {
	d.reloadMu.Lock()
	defer d.reloadMu.Unlock()
	return d.reloaded
}

// Reload reads the settings again and takes over what can change while the
// broker serves: the log level, new entries of the registry, and the files
// with the token keys and the certificate. A setting that changed but needs a
// restart is logged. On an error about a part, that part stays as it was.
// Clients notice nothing.
func (d *Daemon) Reload() error {
	d.reloadMu.Lock()
	defer d.reloadMu.Unlock()
	next := d.reloaded
	if d.opts.Reload != nil {
		c, err := d.opts.Reload()
		if err != nil {
			return fmt.Errorf("reload: %w", err)
		}
		next = c
	}
	var errs []error
	if d.opts.Level != nil && next.LogLevel != d.reloaded.LogLevel {
		errs = append(errs, setLevel(d.opts.Level, next.LogLevel))
	}
	d.broker.RecordWakeups(!next.DisableTimings)
	errs = append(errs, d.reloadProbes(&next), d.keys.reload(), d.identity.Reload(), register(d.broker, next.Registry))
	d.reportUnchangeable(&next)
	d.reloaded = withReloaded(d.reloaded, next)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	d.log.Info("settings reloaded")
	return nil
}

// reportUnchangeable logs the settings that changed in vain.
func (d *Daemon) reportUnchangeable(next *Config) {
	for _, s := range Settings() {
		if !s.Reload && !reflect.DeepEqual(next.field(s).Interface(), d.reloaded.field(s).Interface()) {
			d.log.Warn("setting changed, but only a restart takes it over", logKey, s.Key)
		}
	}
}

// withReloaded returns old with the settings of next that a reload takes over.
func withReloaded(old, next Config) Config {
	for _, s := range Settings() {
		if s.Reload {
			old.field(s).Set(next.field(s))
		}
	}
	return old
}
