package rpc

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Record marking, RFC 5531 section 11: a message on a stream is a record of one
// or more fragments, each behind a word with its length and, in the highest bit,
// whether it is the last.
const (
	markLen      = 4
	lastFragment = 1 << 31
)

// putMark writes the mark of a record that is b, all of it, in one fragment.
func putMark(b []byte) {
	binary.BigEndian.PutUint32(b, lastFragment|uint32(len(b)-markLen))
}

// recordReader reassembles records from a byte stream.
type recordReader struct {
	src  io.Reader
	max  int    // bytes of a record
	buf  []byte // bytes read ahead, of which buf[r:w] are not taken yet
	r, w int
	open bool // the next byte belongs to a record that has begun

	charge  func(n int) error // asked before a record takes n bytes more than minGrow; may be nil
	charged int               // for the record that is read
}

func newRecordReader(src io.Reader, max int) *recordReader {
	return &recordReader{src: src, max: max, buf: make([]byte, readBuffer)}
}

// next appends the next record to dst. The error is io.EOF where the stream
// ends between two records. What it allocates is at most minGrow and twice the
// bytes that arrived, whatever the marks say.
func (r *recordReader) next(dst []byte) ([]byte, error) {
	start, empty := len(dst), 0
	r.open, r.charged = false, 0
	for {
		mark, err := r.mark()
		if err != nil {
			return dst, err
		}
		last, n := mark&lastFragment != 0, int(mark&^lastFragment)
		if n > r.max-(len(dst)-start) {
			return dst, fmt.Errorf("%w: over %d bytes", ErrTooLong, r.max)
		}
		if n == 0 && !last {
			if empty++; empty > maxEmptyFragments {
				return dst, fmt.Errorf("%w: %d empty fragments", ErrRecord, empty)
			}
		}
		if dst, err = r.body(dst, n); err != nil {
			return dst, err
		}
		if last {
			r.open = false
			return dst, nil
		}
	}
}

// wait waits until a record has begun, before next is given a buffer for it.
func (r *recordReader) wait() error {
	r.open = false
	return r.awaitMark()
}

// awaitMark reads until there is a whole mark.
func (r *recordReader) awaitMark() error {
	for r.w-r.r < markLen {
		if r.w > r.r {
			r.open = true
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
	return nil
}

// mark reads one mark.
func (r *recordReader) mark() (uint32, error) {
	if err := r.awaitMark(); err != nil {
		return 0, err
	}
	r.open = true
	m := binary.BigEndian.Uint32(r.buf[r.r:])
	r.r += markLen
	return m, nil
}

// body appends the n bytes of a fragment to dst.
func (r *recordReader) body(dst []byte, n int) ([]byte, error) {
	for n > 0 {
		if r.w == r.r && n < len(r.buf) {
			if err := r.fill(); err != nil {
				return dst, err
			}
		}
		if len(dst) == cap(dst) {
			var err error
			if dst, err = r.grow(dst, n); err != nil {
				return dst, err
			}
		}
		room := min(n, cap(dst)-len(dst))
		if r.w > r.r {
			k := min(room, r.w-r.r)
			dst = append(dst, r.buf[r.r:r.r+k]...)
			r.r, n = r.r+k, n-k
			continue
		}
		k, err := r.src.Read(dst[len(dst) : len(dst)+room])
		dst, n = dst[:len(dst)+k], n-k
		if err != nil && n > 0 {
			return dst, midRecord(err)
		}
	}
	return dst, nil
}

// grow makes room in dst for some of n more bytes: up to minGrow or twice what
// has arrived, and at least so much that many short fragments are not copied
// again and again.
func (r *recordReader) grow(dst []byte, n int) ([]byte, error) {
	size := len(dst) + max(min(n, max(minGrow, len(dst))), min(len(dst), minGrow), len(dst)/4)
	if more := size - minGrow - r.charged; r.charge != nil && more > 0 {
		if err := r.charge(more); err != nil {
			return dst, err
		}
		r.charged += more
	}
	bigger := make([]byte, len(dst), size)
	copy(bigger, dst)
	return bigger, nil
}

// fill reads ahead once.
func (r *recordReader) fill() error {
	if r.r > 0 {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	n, err := r.src.Read(r.buf[r.w:])
	r.w += n
	if n > 0 {
		return nil // an error comes again at the next read
	}
	if err == nil {
		return nil
	}
	if r.open {
		return midRecord(err)
	}
	return err
}

// midRecord makes an end of the stream inside a record an error.
func midRecord(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ready reports whether a whole record of one fragment is read ahead, so that
// next does not have to wait.
func (r *recordReader) ready() bool {
	if r.w-r.r < markLen {
		return false
	}
	m := binary.BigEndian.Uint32(r.buf[r.r:])
	return m&lastFragment != 0 && int(m&^lastFragment) <= r.w-r.r-markLen
}
