package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"felix/internal/testkit"
)

// Namespace is a network namespace of a test. It ends with the test.
type Namespace struct {
	handle netns.NsHandle
	links  *netlink.Handle
}

// New makes a namespace whose loopback interface is up. It skips the test
// without root.
func New(t testing.TB) *Namespace {
	t.Helper()
	testkit.RequireRoot(t)
	n := &Namespace{handle: create(t)}
	t.Cleanup(func() { n.handle.Close() })
	links, err := netlink.NewHandleAt(n.handle)
	if err != nil {
		t.Fatalf("netlink in a new namespace: %v", err)
	}
	n.links = links
	t.Cleanup(links.Close)
	n.Up(t, "lo")
	return n
}

// create makes the namespace on a thread of its own, which ends with it.
func create(t testing.TB) netns.NsHandle {
	t.Helper()
	var handle netns.NsHandle
	err := onThread(func() (err error) {
		handle, err = netns.New()
		return err
	})
	if err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	return handle
}

// onThread runs f on an operating-system thread that ends afterwards, so that
// what f does to its thread stays without effect on others.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := fmt.Errorf("the function did not return")
		defer func() { done <- err }()
		err = f()
	}()
	return <-done
}

// Do runs f on a thread inside the namespace and returns its error. Sockets that
// f opens stay in the namespace; goroutines that f starts are outside.
func (n *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("enter the namespace: %w", err)
		}
		return f()
	})
}

// Run is Do; an error of f ends the test.
func (n *Namespace) Run(t testing.TB, f func() error) {
	t.Helper()
	if err := n.Do(f); err != nil {
		t.Fatal(err)
	}
}

// Sysctl sets a kernel setting of the namespace by its dotted name.
func (n *Namespace) Sysctl(t testing.TB, name, value string) {
	t.Helper()
	n.Run(t, func() error {
		path := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
		return os.WriteFile(path, []byte(value), 0)
	})
}

// Proc reads a file under /proc/net of the namespace, such as "snmp".
func (n *Namespace) Proc(t testing.TB, name string) string {
	t.Helper()
	var text []byte
	n.Run(t, func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/" + name)
		return err
	})
	return string(text)
}

// Up switches an interface on.
func (n *Namespace) Up(t testing.TB, link string) {
	t.Helper()
	if err := n.links.LinkSetUp(n.link(t, link)); err != nil {
		t.Fatalf("switch %s on: %v", link, err)
	}
}

// Down switches an interface off.
func (n *Namespace) Down(t testing.TB, link string) {
	t.Helper()
	if err := n.links.LinkSetDown(n.link(t, link)); err != nil {
		t.Fatalf("switch %s off: %v", link, err)
	}
}

// SetMTU sets the MTU of an interface in bytes.
func (n *Namespace) SetMTU(t testing.TB, link string, mtu int) {
	t.Helper()
	if err := n.links.LinkSetMTU(n.link(t, link), mtu); err != nil {
		t.Fatalf("set the MTU of %s to %d: %v", link, mtu, err)
	}
}

func (n *Namespace) link(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := n.links.LinkByName(name)
	if err != nil {
		t.Fatalf("interface %s: %v", name, err)
	}
	return l
}
