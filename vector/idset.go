package vector

import "github.com/RoaringBitmap/roaring/v2/roaring64"

// IDSet is a set of vector ids, compressed. The zero value is empty. Methods
// that do not change it may be called concurrently.
type IDSet struct {
	rb roaring64.Bitmap
}

// NewIDSet returns the set of the given ids, in any order.
func NewIDSet(ids ...uint64) *IDSet {
	s := &IDSet{}
	s.rb.AddMany(ids)
	return s
}

// Add adds id.
func (s *IDSet) Add(id uint64) { s.rb.Add(id) }

// AddRange adds the ids from first to last, both included.
func (s *IDSet) AddRange(first, last uint64) {
	if first > last {
		return
	}
	s.rb.Add(last) // an open end cannot name the highest id
	s.rb.AddRange(first, last)
}

// Remove removes id.
func (s *IDSet) Remove(id uint64) { s.rb.Remove(id) }

// Contains reports whether id is in the set.
func (s *IDSet) Contains(id uint64) bool { return s.rb.Contains(id) }

// Count is the number of ids.
func (s *IDSet) Count() uint64 { return s.rb.GetCardinality() }

// Or adds the ids of o.
func (s *IDSet) Or(o *IDSet) { s.rb.Or(&o.rb) }

// Clone returns a copy that shares nothing.
func (s *IDSet) Clone() *IDSet { return &IDSet{rb: *s.rb.Clone()} }

// Ascend calls f with the ids from lo to hi, both included, in ascending order
// until f returns false.
func (s *IDSet) Ascend(lo, hi uint64, f func(id uint64) bool) {
	it := s.rb.Iterator()
	it.AdvanceIfNeeded(lo)
	for it.HasNext() {
		id := it.Next()
		if id > hi || !f(id) {
			return
		}
	}
}
