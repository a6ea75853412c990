package udpprobe

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// showProgress draws the time that a run has taken, until stop is called. A nil
// writer draws nothing.
func showProgress(w io.Writer, o Options) (stop func()) {
	if w == nil {
		return func() {}
	}
	const tick = 100 * time.Millisecond
	bar := progressbar.NewOptions64(o.Duration.Milliseconds(),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("udp"),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(tick)
		defer t.Stop()
		start := time.Now()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
				// Drawing is a courtesy; a terminal that is gone is no failure.
				_ = bar.Set64(min(time.Since(start), o.Duration-1).Milliseconds())
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		_ = bar.Finish() // as above
	}
}
