package cli

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"felix/daemon"
)

func (a *app) streamCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stream",
		Short: "Make, list and delete streams of the broker on this host",
		Long: `Makes, lists and deletes streams through the admin interface of the broker on this
host. What is made this way lasts until the broker ends; streams that should
always exist belong under registry in its configuration file.`,
	}
	cmd.AddCommand(a.streamCreateCommand(), a.streamListCommand(), a.streamDeleteCommand())
	return requireSubcommand(cmd)
}

func (a *app) streamCreateCommand() *cobra.Command {
	var entries int
	var bytes int64
	cmd := &cobra.Command{
		Use:   "create STREAM",
		Short: "Register a stream",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			extra := map[string]any{}
			if cmd.Flags().Changed("ring-entries") {
				extra["ring_entries"] = entries
			}
			if cmd.Flags().Changed("ring-bytes") {
				extra["ring_bytes"] = bytes
			}
			return a.create(cmd.Context(), "streams", "stream", args[0], extra)
		},
	}
	cmd.Flags().IntVar(&entries, "ring-entries", 0, "events kept for replay; default: the broker's ring_entries")
	cmd.Flags().Int64Var(&bytes, "ring-bytes", 0, "bytes kept for replay; default: the broker's ring_bytes")
	return cmd
}

func (a *app) streamListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the streams",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []daemon.StreamReport
			if err := a.admin(cmd.Context(), http.MethodGet, "/v1/streams", nil, &list); err != nil {
				return opError("stream list", err)
			}
			if a.json() {
				return a.writeJSON(list)
			}
			rows := [][]string{{"TENANT", "NAMESPACE", "STREAM", "SUBSCRIPTIONS", "OLDEST", "NEXT", "RING BYTES"}}
			for _, s := range list {
				rows = append(rows, []string{
					s.Tenant, s.Namespace, s.Stream, strconv.Itoa(s.Subscriptions),
					strconv.FormatUint(s.OldestSeq, 10), strconv.FormatUint(s.NextSeq, 10), strconv.FormatInt(s.RingBytes, 10),
				})
			}
			return a.table(rows)
		},
	}
}

func (a *app) streamDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete STREAM",
		Short: "Delete a stream; its subscriptions end once they have what is queued",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.deleteStream(cmd.Context(), args[0])
		},
	}
}

func (a *app) deleteStream(ctx context.Context, name string) error {
	const op = "stream delete"
	tenant, namespace := a.scope()
	if err := checkNames(op, nameArgument{"STREAM", name}, nameArgument{"--tenant", tenant}, nameArgument{"--namespace", namespace}); err != nil {
		return err
	}
	q := url.Values{"tenant": {tenant}, "namespace": {namespace}, "name": {name}}
	if err := a.admin(ctx, http.MethodDelete, "/v1/streams?"+q.Encode(), nil, nil); err != nil {
		return opError(operation(op, name), err)
	}
	if a.json() {
		return a.writeJSON(struct {
			Deleted bool `json:"deleted"`
		}{true})
	}
	return a.printf("stream %s deleted\n", path(tenant, namespace, name))
}
