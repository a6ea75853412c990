package wire

// Budget bounds the memory of frames that are being read.
type Budget interface {
	// Take is called before the reader takes n more bytes of memory for the
	// frame it is reading, n > 0. It may block. The reader gives nothing back:
	// what was taken belongs to that frame, whether it is completed or not. An
	// error ends Next, as one of the underlying reader does.
	Take(n int) error
}

// SetBudget makes the reader ask b for the memory of every frame that does not
// fit a slab of 16 KiB. nil, the default, sets no bound. Call it before Next.
func (r *FrameReader) SetBudget(b Budget) { r.budget = b }

// take asks for the memory of a large frame that is to grow from one size to
// another, in bytes.
func (r *FrameReader) take(from, to int) error {
	if r.budget == nil || to <= maxSlab {
		return nil
	}
	if from <= maxSlab {
		from = 0 // was not charged
	}
	return r.budget.Take(to - from)
}
