package e2e

import (
	"syscall"
	"testing"
	"time"

	"felix/daemon"
	"felix/internal/testkit"
)

// TestSuspendedClient is field case F16: a client process is stopped for longer
// than the idle timeout, several times. Afterwards it is connected again soon,
// with one connection for each place in its pools, and holds nothing more than
// before; neither does the daemon.
func TestSuspendedClient(t *testing.T) {
	t.Parallel()
	const idle, suspensions = time.Second, 5
	d := testkit.StartDaemon(t, []string{"FELIX_IDLE_TIMEOUT_MS=1000", "FELIX_KEEP_ALIVE_MS=250"})
	c := startChild(t, d, childSpec{Session: true, Stream: "beats", IdleTimeout: idle})
	atWork := func(since childReport) func(childReport) bool {
		return func(r childReport) bool {
			const n = 10
			return r.Published >= since.Published+n && r.Cached >= since.Cached+n &&
				r.Events[0] >= since.Events[0]+n && r.Events[1] >= since.Events[1]+n
		}
	}
	c.until(t, 30*time.Second, "the session works", atWork(childReport{}))
	full := func(r childReport) bool {
		return len(r.Connections) == 3 && r.Connections["publish"] == 1 && r.Connections["event"] == 2 && r.Connections["cache"] == 1
	}
	c.until(t, 10*time.Second, "one connection in each place", full)
	before, descriptors := c.report(), testkit.OpenDescriptors(t, c.cmd.Process.Pid)
	daemonDescriptors := testkit.OpenDescriptors(t, d.Cmd.Process.Pid)

	for i := range suspensions {
		c.signal(t, syscall.SIGSTOP)
		time.Sleep(idle * 2) // the case says: longer than the idle timeout
		last := c.report()
		c.signal(t, syscall.SIGCONT)
		woken := time.Now()
		c.until(t, 10*time.Second, "the connections are noticed to be gone", func(r childReport) bool { return r.Lost > last.Lost })
		c.until(t, 10*time.Second, "the session works again", func(r childReport) bool { return full(r) && atWork(last)(r) })
		took := time.Since(woken)
		t.Logf("suspension %d: at work again after %v", i, took)
		if took > 5*time.Second {
			t.Errorf("suspension %d: it took %v until everything worked again", i, took)
		}
	}
	c.until(t, 20*time.Second, "no more goroutines than before", func(r childReport) bool { return r.Goroutines < before.Goroutines+suspensions })
	testkit.Eventually(t, 20*time.Second, "no more descriptors than before", func() bool {
		return testkit.OpenDescriptors(t, c.cmd.Process.Pid) <= descriptors && testkit.OpenDescriptors(t, d.Cmd.Process.Pid) <= daemonDescriptors
	})
	testkit.Eventually(t, 20*time.Second, "the daemon has one connection for each place", func() bool {
		s := adminGet[daemon.Status](t, d, "/v1/status")
		return s.Connections == 4 && s.Subscriptions == 2
	})
	if r := c.report(); r.Err != "" {
		t.Errorf("the session saw an error: %s", r.Err)
	}
	checkLedger(t, d, "beats")
}
