package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"felix/client"
	"felix/internal/testkit"
	"felix/transport"
)

const shutdownPublishers = 4

// runsEnv says how often the shutdown under load is repeated; 5 times without it.
const runsEnv = "FELIX_E2E_RUNS"

// runsText is its value. TestMain takes it out of the environment, because felixd
// refuses variables that it does not know.
var runsText string

func shutdownRuns(t *testing.T) int {
	t.Helper()
	if runsText == "" {
		return 5
	}
	n, err := strconv.Atoi(runsText)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number of runs", runsEnv, runsText)
	}
	return n
}

// TestShutdownUnderLoad is field case F21: SIGTERM while four publishers, which
// do not stop by themselves, pipeline acknowledged messages. Every message that
// was acknowledged has reached the live subscribers, everybody is told why the
// connection ends, and the process ends in time.
func TestShutdownUnderLoad(t *testing.T) {
	for i := range shutdownRuns(t) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			l := startLoad(t)
			begin := time.Now()
			if err := l.d.Stop(syscall.SIGTERM); err != nil {
				t.Errorf("exit: %v", err)
			}
			t.Logf("the shutdown took %v", time.Since(begin))
			l.finish(t)
			for p, acked := range l.acked {
				for s, got := range l.got {
					if got[p] < acked {
						t.Errorf("publisher %d: %d messages were acknowledged, subscriber %d got %d", p, acked, s, got[p])
					}
				}
			}
		})
	}
}

// TestSecondSignalEndsTheShutdown is the other half of F21: a second SIGTERM cuts
// the shutdown short, and still everybody is told.
func TestSecondSignalEndsTheShutdown(t *testing.T) {
	l := startLoad(t, "FELIX_DRAIN_GRACE_MS=20000")
	l.d.Signal(syscall.SIGTERM)
	testkit.Eventually(t, 20*time.Second, "the shutdown has begun", func() bool { return strings.Contains(l.d.Log(), "msg=stopping") })
	time.Sleep(200 * time.Millisecond) // the publishers keep it busy for 20 s
	begin := time.Now()
	if err := l.d.Stop(syscall.SIGTERM); err == nil {
		t.Error("a shutdown that was cut short ended with exit code 0")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the second signal took %v", took)
	}
	l.finish(t)
}

// load is a daemon with publishers and subscribers at work.
type load struct {
	d     *testkit.Daemon
	work  sync.WaitGroup
	acked [shutdownPublishers]uint64
	got   [2][shutdownPublishers]uint64 // of each subscriber, in order
	ended [2]error
}

// startLoad returns once every publisher has had acknowledgements. The queues of
// the subscribers hold the publishers back, so that no more is under way than a
// client can take while its connection is being closed.
func startLoad(t *testing.T, env ...string) *load {
	t.Helper()
	l := &load{d: testkit.StartDaemon(t, append([]string{"FELIX_SUBSCRIBER_QUEUE_BYTES=1048576", "FELIX_DRAIN_GRACE_MS=500"}, env...), "--profile", "lossless")}
	for i := range l.got {
		sub, err := connect(t, clientConfig(t, l.d)).Subscribe(t.Context(), "load", client.WithoutResume())
		if err != nil {
			t.Fatal(err)
		}
		l.work.Go(func() { l.ended[i] = l.read(sub, i) })
	}
	var loading sync.WaitGroup
	loading.Add(shutdownPublishers)
	cfg := clientConfig(t, l.d)
	cfg.ReconnectTimeout = time.Second // nobody comes back
	cfg.InflightBytes = 512 << 10      // what the shutdown has to deliver
	for i := range shutdownPublishers {
		p := connect(t, cfg).NewPublisher("load", client.PublisherOptions{})
		l.work.Go(func() { l.acked[i] = publishUntilRefused(t.Context(), p, i, loading.Done) })
	}
	loading.Wait()
	return l
}

var errOrder = errors.New("messages of one publisher are out of order")

func (l *load) read(sub *client.Subscription, i int) error {
	var batch []client.Event
	for {
		var err error
		batch, err = sub.NextBatch(context.Background(), batch[:0]) // ends with the connection
		for _, e := range batch {
			p := e.Payload[0]
			if binary.BigEndian.Uint64(e.Payload[1:]) != l.got[i][p] {
				return errOrder
			}
			l.got[i][p]++
		}
		if err != nil {
			return err
		}
	}
}

// publishUntilRefused returns how many messages were acknowledged. It calls
// running once a few have been.
func publishUntilRefused(ctx context.Context, p *client.Publisher, id int, running func()) uint64 {
	payload := make([]byte, 1<<10)
	payload[0] = byte(id)
	started := false
	for n := uint64(0); ; n++ {
		binary.BigEndian.PutUint64(payload[1:], n)
		err := p.Publish(ctx, payload)
		st := p.Stats()
		if !started && (st.Acked > 200 || err != nil) {
			started = true
			running()
		}
		if err != nil || st.Failed > 0 {
			break
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.Close(closing) // it reports the failure that ended the loop
	return p.Stats().Acked
}

// finish waits for the clients and checks what they were told.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.work.Wait()
	for i, err := range l.ended {
		var app *transport.ApplicationError
		if !errors.As(err, &app) || !app.Remote || app.Code != 0 || app.Reason != "broker shutting down" {
			t.Errorf("subscriber %d ended with %v, want the broker's reason", i, err)
		}
	}
	for i, acked := range l.acked {
		if acked == 0 {
			t.Errorf("publisher %d had no acknowledgement: this tested nothing", i)
		}
	}
}
