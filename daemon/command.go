package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of felixd.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// flagSettings are the flags that stand for a setting.
var flagSettings = []struct{ flag, key, help string }{
	{"data-dir", "data_dir", "directory for keys, certificate, token and admin socket"},
	{"listen", "quic_bind", "UDP address to listen on"},
	{"metrics", "metrics_bind", "TCP address of /metrics, /live and /ready, or off"},
	{"profile", "profile", "set of defaults: standard or lossless"},
	{"log-level", "log_level", "debug, info, warn or error"},
}

// command is one invocation of felixd.
type command struct {
	environ        []string
	stdout, stderr io.Writer

	config      string
	dev         bool
	check       bool
	print       bool
	set         []string
	flags       map[string]*string // setting key -> value of its flag
	usageFailed bool
}

// Main runs felixd with the given arguments and environment and returns its
// exit code: 0, 1 after an error, 2 for wrong usage. It takes over the signals
// SIGTERM, SIGINT and SIGHUP of the process while it serves.
func Main(args, environ []string, stdout, stderr io.Writer) int {
	c := &command{environ: environ, stdout: stdout, stderr: stderr, flags: map[string]*string{}}
	root := c.root()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "felixd: %s\n", OneLine(err))
	if c.usageFailed {
		return exitUsage
	}
	return exitError
}

// NewCommand returns felixd's command tree, for its documentation.
func NewCommand() *cobra.Command {
	return (&command{stdout: io.Discard, stderr: io.Discard, flags: map[string]*string{}}).root()
}

func (c *command) root() *cobra.Command {
	// Until the arguments have been parsed, a failure is one of usage.
	c.usageFailed = true
	root := &cobra.Command{
		Use:   "felixd",
		Short: "QUIC publish/subscribe and cache broker",
		Long: `felixd serves the Felix protocol on UDP.

Settings come from built-in defaults, the configuration file, the environment
and the command line; the later one wins. --print-config shows every setting,
what it means and where its value came from.`,
		Example: `  felixd --dev
  felixd --config /etc/felix/felixd.yaml
  felixd --config felixd.yaml --check-config`,
		Args:          cobra.NoArgs,
		Version:       Build().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.usageFailed = false
			return c.run(cmd)
		},
	}
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetVersionTemplate("felixd {{.Version}}\n")
	f := root.Flags()
	f.StringVar(&c.config, "config", "", "configuration file (YAML)")
	f.BoolVar(&c.dev, "dev", false, "development mode: loopback only, makes its own keys, certificate and token")
	for _, s := range flagSettings {
		c.flags[s.key] = f.String(s.flag, "", s.help)
	}
	f.StringArrayVar(&c.set, "set", nil, "set any setting, as `KEY=VALUE` (may be repeated)")
	f.BoolVar(&c.check, "check-config", false, "check the settings and exit")
	f.BoolVar(&c.print, "print-config", false, "print the settings in force, as a configuration file, and exit")
	return root
}

// request turns the command line into a LoadRequest.
func (c *command) request(cmd *cobra.Command) (LoadRequest, error) {
	r := LoadRequest{File: c.config, Environ: c.environ, Flags: map[string]string{}, FlagNames: map[string]string{}}
	if c.dev {
		r.Flags["dev"], r.FlagNames["dev"] = "true", "--dev"
	}
	for _, s := range flagSettings {
		if cmd.Flags().Changed(s.flag) {
			r.Flags[s.key], r.FlagNames[s.key] = *c.flags[s.key], "--"+s.flag
		}
	}
	for _, kv := range c.set {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return r, fmt.Errorf("--set %s: want KEY=VALUE", kv)
		}
		if _, twice := r.Flags[key]; twice {
			return r, fmt.Errorf("--set %s: set twice on the command line", key)
		}
		r.Flags[key] = value
	}
	return r, nil
}

func (c *command) run(cmd *cobra.Command) error {
	r, err := c.request(cmd)
	if err != nil {
		c.usageFailed = true
		return err
	}
	l, err := Load(r)
	if err != nil {
		return err
	}
	switch {
	case c.print:
		return l.WriteConfig(c.stdout)
	case c.check:
		if err := l.checkFiles(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.stdout, "felixd: settings are valid (%s)\n", describeSources(l))
		return err
	}
	log, level, err := NewLogger(c.stderr, l.Config.LogLevel, l.Config.LogFormat)
	if err != nil {
		return err
	}
	for _, v := range l.Ignored {
		log.Warn("environment variable ignored", "variable", v.Name, logReason, v.Reason)
	}
	log.Info("settings", logSource, describeSources(l))
	return serveWithSignals(Options{
		Config: l.Config, Log: log, Level: level, Announce: c.stdout,
		Reload: func() (Config, error) {
			again, err := Load(LoadRequest{File: l.File, Environ: r.Environ, Flags: maps.Clone(r.Flags), FlagNames: r.FlagNames})
			if err != nil {
				return Config{}, err
			}
			return again.Config, nil
		},
	})
}

// describeSources says in a few words where the settings came from.
func describeSources(l *Loaded) string {
	file := "no file"
	if l.File != "" {
		file = l.File
	}
	env, flags := 0, 0
	for _, where := range l.Sources {
		switch {
		case strings.HasPrefix(where, "environment"):
			env++
		case strings.HasPrefix(where, "flag"):
			flags++
		}
	}
	return fmt.Sprintf("%s, %d from the environment, %d from flags", file, env, flags)
}

// Run starts a broker, serves until ctx ends, and then drains it. It returns
// nil after a clean stop.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	d, err := Start(ctx, Options{Config: cfg, Log: log})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return d.Stop(context.Background())
	case err := <-d.Failed():
		return errors.Join(err, d.Stop(context.Background()))
	}
}
