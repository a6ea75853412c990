package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"felix/client"
	"felix/daemon"
)

const (
	demoStream        = "demo"
	demoLatencyStream = "demo-latency"
	// demoPatience is how long nothing may arrive before the run has failed.
	demoPatience = 30 * time.Second
)

// connectTo opens a client of its own to the demo's broker.
func (a *app) connectTo(ctx context.Context, e daemon.Endpoint) (*client.Client, error) {
	t := target{tokenFile: e.TokenFile}
	limit, err := a.frameLimit()
	if err != nil {
		return nil, err
	}
	return client.Connect(ctx, client.Config{
		Addr: e.Addr, CAFile: e.CAFile, Tenant: e.Tenant, Namespace: e.Namespace, TokenSource: t.readToken, MaxFrameBytes: limit,
	})
}

// transfer is one run of the first part.
type transfer struct {
	dir      string
	files    []string
	start    time.Time
	received atomic.Uint64 // payload bytes, all subscribers
	bar      *progressbar.ProgressBar
}

// demoTransfer publishes all files and has every subscriber check them.
func (a *app) demoTransfer(ctx context.Context, e daemon.Endpoint, dir string, files []string, report *demoReport) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var subs []*client.Subscription
	for i := range report.Subscribers {
		c, err := a.connectTo(ctx, e)
		if err != nil {
			return fmt.Errorf("subscriber %d: %w", i+1, err)
		}
		defer func() { _ = closeClient(c) }() // what matters was checked by then
		s, err := c.Subscribe(ctx, demoStream)
		if err != nil {
			return fmt.Errorf("subscriber %d: %w", i+1, err)
		}
		subs = append(subs, s)
	}
	publisher, err := a.connectTo(ctx, e)
	if err != nil {
		return err
	}
	defer func() { _ = closeClient(publisher) }() // Flush has told of failures

	t := &transfer{dir: dir, files: files, start: time.Now(), bar: a.progress(len(files) * report.Subscribers)}
	checks := make([]*checker, len(subs))
	var work sync.WaitGroup
	for i, s := range subs {
		checks[i] = newChecker(files, t.start)
		work.Go(func() {
			if err := t.receive(ctx, s, checks[i]); err != nil {
				cancel(fmt.Errorf("subscriber %d: %w", i+1, err))
			}
		})
	}
	var sent sentFiles
	work.Go(func() {
		if err := t.publish(ctx, publisher, &sent); err != nil {
			cancel(fmt.Errorf("publisher: %w", err))
		}
	})
	watching, stopWatching := context.WithCancel(ctx)
	go t.watch(watching, cancel)
	work.Wait()
	stopWatching()
	elapsed := time.Since(t.start)
	t.closeBar()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return report.addTransfer(elapsed, &sent, checks)
}

// sentFiles is what the publisher sent.
type sentFiles struct {
	messages, bytes uint64
	digest          []byte // over the path and digest of every file
}

func (t *transfer) publish(ctx context.Context, c *client.Client, sent *sentFiles) error {
	p := c.NewPublisher(demoStream, client.PublisherOptions{})
	all := sha256.New()
	scratch := make([]byte, 0, demoChunk+demoHeader+256)
	buffers := [2][]byte{make([]byte, demoChunk), make([]byte, demoChunk)}
	for i, path := range t.files {
		digest, err := t.publishFile(ctx, p, uint32(i), path, &scratch, buffers, sent)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", path, err), p.Close(context.WithoutCancel(ctx)))
		}
		addFile(all, path, digest)
	}
	sent.digest = all.Sum(nil)
	return p.Close(ctx)
}

// publishFile sends one file, reading one part ahead to know which is the last.
func (t *transfer) publishFile(ctx context.Context, p *client.Publisher, index uint32, path string, scratch *[]byte, buffers [2][]byte, sent *sentFiles) ([]byte, error) {
	f, err := os.Open(filepath.Join(t.dir, filepath.FromSlash(path)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	content := sha256.New()
	m := demoMessage{file: index, path: []byte(path)}
	part, err := readPart(f, buffers[0])
	for ; err == nil; m.chunk++ {
		var next []byte
		if len(part) == demoChunk {
			if next, err = readPart(f, buffers[(m.chunk+1)%2]); err != nil {
				break
			}
		}
		content.Write(part)
		if m.content, m.last = part, len(next) == 0; m.last {
			content.Sum(m.digest[:0])
		}
		m.sent = time.Since(t.start)
		*scratch = m.append((*scratch)[:0])
		if err = p.Publish(ctx, *scratch); err != nil {
			break
		}
		sent.messages++
		sent.bytes += uint64(len(part))
		if m.last {
			return m.digest[:], nil
		}
		part = next
	}
	return nil, err
}

// readPart fills buf as far as the file goes. At the end of the file it returns
// nothing.
func readPart(r io.Reader, buf []byte) ([]byte, error) {
	n, err := io.ReadFull(r, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return buf[:n], err
}

func (t *transfer) receive(ctx context.Context, s *client.Subscription, c *checker) error {
	var batch []client.Event
	for !c.done() {
		var err error
		if batch, err = s.NextBatch(ctx, batch[:0]); err != nil {
			return err
		}
		at, before, files := time.Since(t.start), c.bytes, c.file
		for _, e := range batch {
			if err := c.take(e.Payload, at); err != nil {
				return err
			}
		}
		t.received.Add(c.bytes - before + uint64(len(batch)))
		if t.bar != nil && c.file > files {
			_ = t.bar.Add(int(c.file - files)) // only the terminal can fail
		}
	}
	return nil
}

// watch ends a run in which nothing arrives any more.
func (t *transfer) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, since := t.received.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := t.received.Load(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > demoPatience {
			cancel(fmt.Errorf("nothing has arrived for %v", demoPatience))
			return
		}
	}
}

// progress returns a bar on standard error if that is a terminal.
func (a *app) progress(files int) *progressbar.ProgressBar {
	if !isTerminal(a.io.Err) {
		return nil
	}
	return progressbar.NewOptions(files,
		progressbar.OptionSetWriter(a.io.Err), progressbar.OptionSetDescription("files delivered"), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}

func (t *transfer) closeBar() {
	if t.bar != nil {
		_ = t.bar.Clear() // only the terminal can fail
	}
}
