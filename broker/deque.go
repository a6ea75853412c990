package broker

// deque is a ring buffer that doubles when it is full. The zero value is empty.
// It is not safe for concurrent use.
type deque[T any] struct {
	buf  []T // length 0 or a power of two
	head int
	n    int
}

// minDeque is the first capacity; keepDeque the largest one that an emptied
// deque holds on to.
const (
	minDeque  = 16
	keepDeque = 4096
)

func (d *deque[T]) len() int { return d.n }

// at returns the i-th element from the front; the pointer is valid until the
// next push or pop.
func (d *deque[T]) at(i int) *T { return &d.buf[(d.head+i)&(len(d.buf)-1)] }

func (d *deque[T]) push(v T) {
	if d.n == len(d.buf) {
		d.grow()
	}
	d.buf[(d.head+d.n)&(len(d.buf)-1)] = v
	d.n++
}

// pop removes and returns the front element, and forgets what it refers to.
func (d *deque[T]) pop() T {
	p := &d.buf[d.head]
	v := *p
	var zero T
	*p = zero
	d.head = (d.head + 1) & (len(d.buf) - 1)
	d.n--
	if d.n == 0 && len(d.buf) > keepDeque {
		d.clear()
	}
	return v
}

func (d *deque[T]) clear() { *d = deque[T]{} }

func (d *deque[T]) grow() {
	bigger := make([]T, max(minDeque, 2*len(d.buf)))
	k := copy(bigger, d.buf[d.head:])
	copy(bigger[k:], d.buf[:d.head])
	d.buf, d.head = bigger, 0
}
