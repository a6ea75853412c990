package quicprobe

import (
	"io"

	"github.com/schollz/progressbar/v3"
)

// showProgress draws what has arrived, in bytes, until stop is called. For a nil
// writer draw is nil.
func showProgress(w io.Writer, o Options) (draw func(int64), stop func()) {
	if w == nil {
		return nil, func() {}
	}
	total := o.payload()
	if o.pings() {
		total = int64(o.Payload) * int64(o.Count)
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(string(o.Kind)),
		progressbar.OptionShowBytes(!o.pings()),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
	)
	// Drawing is a courtesy; a terminal that is gone is no failure.
	return func(n int64) { _ = bar.Set64(min(n, total-1)) }, func() { _ = bar.Finish() }
}
