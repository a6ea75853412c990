package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"felix/client"
	"felix/daemon"
)

// adminTimeout bounds a request to the admin interface.
const adminTimeout = 30 * time.Second

// adminSocket finds the admin interface of the broker on this host.
func (a *app) adminSocket() (string, error) {
	dir, err := a.dataDir()
	if err != nil {
		return "", err
	}
	if e, err := daemon.ReadEndpoint(dir); err == nil && e.AdminSocket != "" {
		return e.AdminSocket, nil
	}
	return filepath.Join(dir, daemon.AdminSocketName), nil
}

// admin sends one request to the admin interface of the broker on this host
// and decodes the answer into out.
func (a *app) admin(ctx context.Context, method, path string, body, out any) error {
	socket, err := a.adminSocket()
	if err != nil {
		return err
	}
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://felixd"+path, in)
	if err != nil {
		return err
	}
	resp, err := adminClient(socket).Do(req)
	if err != nil {
		return adminError(socket, err)
	}
	defer resp.Body.Close()
	return readAnswer(resp, out)
}

func adminClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
}

func adminError(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return hint(fmt.Errorf("no broker answers on %s", socket), "start felixd, or name its data directory with --data-dir")
	case errors.Is(err, fs.ErrPermission):
		return hint(fmt.Errorf("%s: permission denied", socket), "only the user who runs felixd may use its admin interface")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err
}

func readAnswer(resp *http.Response, out any) error {
	dec := json.NewDecoder(resp.Body)
	if resp.StatusCode == http.StatusOK {
		if out == nil {
			return nil
		}
		return dec.Decode(out)
	}
	var e struct {
		Error string `json:"error"`
	}
	if err := dec.Decode(&e); err != nil || e.Error == "" {
		return fmt.Errorf("the broker answered %s", resp.Status)
	}
	return errors.New(e.Error)
}

// scope is the tenant and namespace that administrative commands act in.
func (a *app) scope() (tenant, namespace string) {
	tenant, namespace = a.value("tenant"), a.value("namespace")
	if e, err := a.endpoint(); err == nil {
		fill(&tenant, e.Tenant)
		fill(&namespace, e.Namespace)
	}
	fill(&tenant, daemon.DevTenant)
	fill(&namespace, client.DefaultNamespace)
	return tenant, namespace
}

// create registers a stream or a cache. extra are further fields of the request.
func (a *app) create(ctx context.Context, collection, kind, name string, extra map[string]any) error {
	op := kind + " create"
	tenant, namespace := a.scope()
	if err := checkNames(op, nameArgument{strings.ToUpper(kind), name}, nameArgument{"--tenant", tenant}, nameArgument{"--namespace", namespace}); err != nil {
		return err
	}
	body := map[string]any{"tenant": tenant, "namespace": namespace, "name": name}
	for k, v := range extra {
		body[k] = v
	}
	var answer daemon.Created
	if err := a.admin(ctx, http.MethodPost, "/v1/"+collection, body, &answer); err != nil {
		return opError(operation(op, name), err)
	}
	if a.json() {
		return a.writeJSON(answer)
	}
	if !answer.Created {
		return a.printf("%s %s exists\n", kind, path(tenant, namespace, name))
	}
	return a.printf("%s %s created\n", kind, path(tenant, namespace, name))
}
