package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"felix/client"
	"felix/daemon"
)

// errNoValue says that a cache key has no value.
var errNoValue = errors.New("no value")

func (a *app) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Read and write cache values, make and list caches",
	}
	cmd.AddCommand(a.cachePutCommand(), a.cacheGetCommand(), a.cacheDeleteCommand(), a.cacheCreateCommand(), a.cacheListCommand())
	return requireSubcommand(cmd)
}

// requireSubcommand makes a command that only groups others complain when none
// is named.
func requireSubcommand(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("%s: unknown command %q (%s --help lists what there is)", cmd.CommandPath(), args[0], cmd.CommandPath())
		}
		return usagef("%s: command missing (%s --help lists what there is)", cmd.CommandPath(), cmd.CommandPath())
	}
	return cmd
}

// withCache runs f on a cache of the broker, for the key that args names after
// the cache. Errors start with op and both.
func (a *app) withCache(ctx context.Context, op string, args []string, f func(*client.Cache) error) error {
	if err := checkNames(op, nameArgument{"CACHE", args[0]}); err != nil {
		return err
	}
	if err := checkText("KEY", args[1]); err != nil {
		return opError(op, err)
	}
	c, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	err = opError(operation(op, args[:2]...), f(c.Cache(args[0])))
	if closeErr := closeClient(c); err == nil {
		err = closeErr
	}
	return err
}

func (a *app) cachePutCommand() *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "put CACHE KEY [VALUE]",
		Short: "Store a value, given as an argument or on standard input",
		Example: `  felix cache put sessions alice token-1 --ttl 30m
  felix cache put images logo < logo.png`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ttl < 0 {
				return usagef("--ttl %v: want 0 or more", ttl)
			}
			var value []byte
			if len(args) == 3 {
				value = []byte(args[2])
			} else {
				var err error
				if value, err = io.ReadAll(a.io.In); err != nil {
					return fmt.Errorf("read input: %w", err)
				}
			}
			return a.withCache(cmd.Context(), "cache put", args, func(c *client.Cache) error {
				return c.Put(cmd.Context(), args[1], value, ttl)
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "time until the value vanishes, like 90s or 12h; 0: never")
	return cmd
}

// jsonValue is what felix cache get --json prints.
type jsonValue struct {
	Cache  string  `json:"cache"`
	Key    string  `json:"key"`
	Found  bool    `json:"found"`
	Value  *string `json:"value,omitempty"`
	Base64 []byte  `json:"value_base64,omitempty"`
}

func (a *app) cacheGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get CACHE KEY",
		Short: "Print a value as it is; exit code 1 if there is none",
		Long: `Prints a value as it is, with a line end if standard output is a terminal. With
--json it is an object: value as text, or value_base64 if it is not UTF-8.

Without a value the exit code is 1; --json then prints {..., "found": false}.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCache(cmd.Context(), "cache get", args, func(c *client.Cache) error {
				value, found, err := c.Get(cmd.Context(), args[1])
				if err == nil && a.json() {
					err = a.writeJSON(newJSONValue(args[0], args[1], value, found))
				}
				switch {
				case err != nil:
					return err
				case !found:
					return errNoValue
				case a.json():
					return nil
				}
				if isTerminal(a.io.Out) {
					return a.printf("%s\n", value)
				}
				return a.printf("%s", value)
			})
		},
	}
}

func newJSONValue(cache, key string, value []byte, found bool) jsonValue {
	j := jsonValue{Cache: cache, Key: key, Found: found}
	switch {
	case !found:
	case utf8.Valid(value):
		text := string(value)
		j.Value = &text
	default:
		j.Base64 = value
	}
	return j
}

func (a *app) cacheDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete CACHE KEY",
		Short: "Remove a value",
		Long: `Removes a value. Protocol version 1 has no request for that; with a broker that
offers none, the value is replaced by an empty one that expires at once.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCache(cmd.Context(), "cache delete", args, func(c *client.Cache) error {
				err := c.Delete(cmd.Context(), args[1])
				if errors.Is(err, errors.ErrUnsupported) {
					err = c.Put(cmd.Context(), args[1], nil, time.Millisecond)
				}
				return err
			})
		},
	}
}

func (a *app) cacheCreateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "create CACHE",
		Short: "Register a cache at the broker on this host",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.create(cmd.Context(), "caches", "cache", args[0], nil)
		},
	}
}

func (a *app) cacheListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the caches of the broker on this host",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []daemon.CacheReport
			if err := a.admin(cmd.Context(), http.MethodGet, "/v1/caches", nil, &list); err != nil {
				return opError("cache list", err)
			}
			if a.json() {
				return a.writeJSON(list)
			}
			rows := [][]string{{"TENANT", "NAMESPACE", "CACHE", "ENTRIES", "BYTES"}}
			for _, c := range list {
				rows = append(rows, []string{c.Tenant, c.Namespace, c.Cache, strconv.Itoa(c.Entries), strconv.FormatInt(c.Bytes, 10)})
			}
			return a.table(rows)
		},
	}
}
