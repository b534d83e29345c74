// Package vector holds bitmaps and sets of ids. It is the only importer of roaring.
//
// A bitmap travels and is stored in the portable 32-bit Roaring format
// (https://github.com/RoaringBitmap/RoaringFormatSpec), all little-endian:
//
//	cookie 12346, count of containers          without runs
//	cookie 12347 | (count-1)<<16, a bit for    with runs
//	  each container that is a run
//	count x { key u16, cardinality-1 u16 }
//	count x { offset u32 }                     not with runs and count < 4
//	containers: array   cardinality x u16      up to 4096 rows
//	            bitmap  1024 x u64             above
//	            run     n u16, n x { start u16, length-1 u16 }
package vector

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// MaxWords is the number of 64-bit words that hold every row.
const MaxWords = 1 << 26

// Bitmap is a set of rows. The zero value is the empty set. Methods that do not
// change it may be called concurrently.
type Bitmap struct {
	rb roaring.Bitmap
}

// New returns the set of the given rows, in any order.
func New(rows ...uint32) *Bitmap {
	b := &Bitmap{}
	b.rb.AddMany(rows)
	return b
}

// FromWord returns the set whose row i is bit i of w.
func FromWord(w uint64) *Bitmap {
	b := &Bitmap{}
	b.rb.FromDense([]uint64{w}, true)
	return b
}

// containerRows and containerWords are what one roaring container covers.
const (
	containerRows  = 1 << 16
	containerWords = containerRows / 64
)

// FromWords returns the set whose row i is bit i%64 of word i/64. Trailing zero
// words add nothing. The words are copied.
func FromWords(words []uint64) (*Bitmap, error) { return FromWordsAt(0, words) }

// FromWordsAt is FromWords for words of which the first is word number first.
func FromWordsAt(first uint64, words []uint64) (*Bitmap, error) {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	if n := uint64(len(words)); n > 0 && (n > MaxWords || first > MaxWords-n) {
		return nil, fmt.Errorf("%w: %d words from word %d on, rows end at word %d", ErrBitmap, n, first, MaxWords)
	}
	b := &Bitmap{}
	if len(words) == 0 {
		return b, nil
	}
	// Whole containers are moved by their keys alone, so that no zero word below
	// first is ever made but those of one container.
	if lead := first % containerWords; lead > 0 {
		words = append(make([]uint64, lead, lead+uint64(len(words))), words...)
	}
	b.rb.FromDense(words, true)
	if below := first / containerWords; below > 0 {
		b.rb = *roaring.AddOffset64(&b.rb, int64(below*containerRows))
	}
	return b, nil
}

// ReadRoaring reads a set in the portable Roaring format from all of data, which
// may come from anywhere: what is not a valid stream is ErrBitmap. The bytes are
// copied.
func ReadRoaring(data []byte) (*Bitmap, error) {
	runs, err := checkStream(data)
	if err != nil {
		return nil, err
	}
	b, err := View(bytes.Clone(data))
	if err != nil {
		return nil, err
	}
	// roaring compares each run with every other: quadratic, and the walk above
	// has seen all that it looks for. It is asked where that costs little.
	if runs <= maxValidatedRuns {
		if err := b.rb.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBitmap, err)
		}
	}
	return b, nil
}

// maxValidatedRuns is the most runs in one stream for which Validate is called. A
// thousand of them would cost milliseconds, and an OR of small vectors easily has
// so many.
const maxValidatedRuns = 32

// View reads a stream that this package wrote, and whose bytes are known to be
// unchanged (a checksum), without copying it: the bitmap is good only as long as
// data is, and so is all that was made from it, until Detach.
func View(data []byte) (*Bitmap, error) {
	b := &Bitmap{}
	if _, err := b.rb.FromBuffer(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBitmap, err)
	}
	return b, nil
}

// Detach copies whatever b still shares with bytes it was read from.
func (b *Bitmap) Detach() { b.rb.CloneCopyOnWriteContainers() }

// Add adds rows.
func (b *Bitmap) Add(rows ...uint32) { b.rb.AddMany(rows) }

// AddRange adds the rows from first to last, both included.
func (b *Bitmap) AddRange(first, last uint32) { b.rb.AddRange(uint64(first), uint64(last)+1) }

// Or adds the rows of o.
func (b *Bitmap) Or(o *Bitmap) { b.rb.Or(&o.rb) }

// And keeps the rows that are also in o.
func (b *Bitmap) And(o *Bitmap) { b.rb.And(&o.rb) }

// OrAll adds the rows of all of others; faster than one Or after the other where
// they are many.
func (b *Bitmap) OrAll(others []*Bitmap) {
	switch len(others) {
	case 0:
	case 1:
		b.Or(others[0])
	default:
		all := make([]*roaring.Bitmap, 0, len(others)+1)
		if !b.rb.IsEmpty() {
			all = append(all, &b.rb)
		}
		for _, o := range others {
			all = append(all, &o.rb)
		}
		b.rb = *roaring.FastOr(all...)
	}
}

// OrAll returns the union of all, which may be none.
func OrAll(all []*Bitmap) *Bitmap {
	b := &Bitmap{}
	b.OrAll(all)
	return b
}

// Contains reports whether row is in the set.
func (b *Bitmap) Contains(row uint32) bool { return b.rb.Contains(row) }

// Count is the number of rows.
func (b *Bitmap) Count() uint64 { return b.rb.GetCardinality() }

// IsEmpty reports whether there is no row.
func (b *Bitmap) IsEmpty() bool { return b.rb.IsEmpty() }

// Max is the highest row; false where there is none.
func (b *Bitmap) Max() (uint32, bool) {
	if b.rb.IsEmpty() {
		return 0, false
	}
	return b.rb.Maximum(), true
}

// Equal reports whether both hold the same rows.
func (b *Bitmap) Equal(o *Bitmap) bool { return b.rb.Equals(&o.rb) }

// Clone returns a copy that shares nothing.
func (b *Bitmap) Clone() *Bitmap {
	return &Bitmap{rb: *b.rb.Clone()}
}

// All yields the rows in ascending order.
func (b *Bitmap) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for it := b.rb.Iterator(); it.HasNext(); {
			if !yield(it.Next()) {
				return
			}
		}
	}
}

// Rows returns up to limit rows from first on, ascending; all where limit is 0.
func (b *Bitmap) Rows(first, limit uint64) []uint32 {
	page := b
	if first > 0 || limit > 0 {
		page = b.Page(first, limit)
	}
	return page.rb.ToArray()
}

// Page returns the set of up to limit rows from first on; all where limit is 0.
func (b *Bitmap) Page(first, limit uint64) *Bitmap {
	page := &Bitmap{}
	top, ok := b.Max()
	if !ok || first > uint64(top) {
		return page
	}
	last := top
	if limit > 0 {
		var before uint64
		if first > 0 {
			before = b.rb.Rank(uint32(first - 1))
		}
		if count := b.Count(); limit < count-before {
			row, err := b.rb.Select(uint32(before + limit - 1))
			if err == nil {
				last = row
			}
		}
	}
	page.AddRange(uint32(first), last)
	page.And(b)
	return page
}

// Word is the set as one word, bit i for row i; false where a row is above 63.
func (b *Bitmap) Word() (uint64, bool) {
	top, ok := b.Max()
	switch {
	case !ok:
		return 0, true
	case top > 63:
		return 0, false
	}
	return b.rb.ToDense()[0], true
}

// WordCount is the length of WordsAt(first).
func (b *Bitmap) WordCount(first uint64) uint64 {
	top, ok := b.Max()
	if end := uint64(top)/64 + 1; ok && end > first {
		return end - first
	}
	return 0
}

// WordsAt is the set as words from word number first on, of which word i has the
// rows 64i to 64i+63, without trailing zero words: 8 bytes for each 64 rows up to
// the highest, so up to 512 MiB. Ask WordCount before.
func (b *Bitmap) WordsAt(first uint64) []uint64 {
	if b.WordCount(first) == 0 {
		return nil
	}
	rb := &b.rb
	if below := first / containerWords; below > 0 {
		rb = roaring.AddOffset64(rb, -int64(below*containerRows))
	}
	return rb.ToDense()[first%containerWords:]
}

// Optimize chooses the smallest container for each 65536 rows. Equal sets that
// were optimized have equal bytes.
func (b *Bitmap) Optimize() { b.rb.RunOptimize() }

// RoaringSize is the number of bytes that AppendRoaring adds.
func (b *Bitmap) RoaringSize() uint64 { return b.rb.GetSerializedSizeInBytes() }

// AppendRoaring appends the set in the portable Roaring format.
func (b *Bitmap) AppendRoaring(dst []byte) []byte {
	size := b.RoaringSize()
	if size > math.MaxInt32 {
		panic("vector: bitmap of impossible size") // 65536 containers of 8 KiB are 513 MiB
	}
	buf := bytes.NewBuffer(slices.Grow(dst, int(size)))
	if _, err := b.rb.WriteTo(buf); err != nil {
		panic("vector: " + err.Error()) // a buffer takes everything
	}
	return buf.Bytes()
}
