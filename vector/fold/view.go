package fold

import (
	"fmt"
	"math"
	"sort"
)

// Kind is how a container holds its rows.
type Kind uint8

// The kinds, and their numbers in a frame.
const (
	Array  Kind = iota // ascending u16
	Bitmap             // 1024 u64
	Run                // the number of runs u16, and for each its first row and length-1
)

const (
	cookieRuns    = 12347
	cookieNoRuns  = 12346
	noOffsetBelow = 4 // streams with runs have no offsets under so many containers
	maxArray      = 4096
	bitmapBytes   = 8192
)

// Container is the part of a vector that has one key.
type Container struct {
	Key  uint16
	Kind Kind
	Rows int    // its number of rows, as the header says
	Data []byte // as in the stream
}

// View is a set in portable Roaring bytes, which it shares. The zero value is
// the empty set.
type View struct {
	data  []byte
	count int  // containers
	runs  bool // there are flags, one for each container, that tell which are runs
}

// Parse checks the structure of all of data, in a pass over the headers and the
// runs: it costs what they cost, and nothing for each row of an array or bitmap.
// It allocates nothing where data is good.
func Parse(data []byte) (View, error) {
	v, err := parseHead(data)
	if err != nil {
		return View{}, err
	}
	pairs, offsets := v.pairs(), data[v.offsets():v.body()]
	last, off := -1, v.body()
	for i := 0; len(pairs) >= 4; i++ {
		c := v.container(i, pairs)
		pairs = pairs[4:]
		if int(c.Key) <= last {
			return View{}, fmt.Errorf("%w: key %d after %d", ErrBytes, c.Key, last)
		}
		last = int(c.Key)
		if len(offsets) >= 4 {
			if at := le.Uint32(offsets); int64(at) != int64(off) {
				return View{}, fmt.Errorf("%w: offset of container %d is %d, and it is at %d", ErrBytes, i, at, off)
			}
			offsets = offsets[4:]
		}
		if c.Kind == Array && 2*c.Rows <= len(data)-off { // most, where vectors are small
			off += 2 * c.Rows
			continue
		}
		size, err := containerSize(c.Kind, c.Rows, data[off:])
		if err != nil {
			return View{}, fmt.Errorf("%w: container %d at byte %d: %w", ErrBytes, i, off, err)
		}
		off += size
	}
	if off != len(data) {
		return View{}, fmt.Errorf("%w: %d bytes after the last container", ErrBytes, len(data)-off)
	}
	return v, nil
}

// parseHead checks that the header of data is there.
func parseHead(data []byte) (View, error) {
	v := View{data: data}
	if len(data) < 4 || uint64(len(data)) > math.MaxUint32 {
		return v, fmt.Errorf("%w: %d bytes", ErrBytes, len(data))
	}
	switch cookie := le.Uint32(data); {
	case cookie&0xffff == cookieRuns:
		v.runs, v.count = true, int(cookie>>16)+1
	case cookie == cookieNoRuns && len(data) >= 8:
		n := le.Uint32(data[4:])
		if n > Keys {
			return v, fmt.Errorf("%w: %d containers", ErrBytes, n)
		}
		v.count = int(n)
	default:
		return v, fmt.Errorf("%w: cookie %#x in %d bytes", ErrBytes, cookie, len(data))
	}
	if v.body() > len(data) {
		return v, fmt.Errorf("%w: header of %d bytes for %d containers, %d there", ErrBytes, v.body(), v.count, len(data))
	}
	return v, nil
}

// containerSize is the number of bytes of a container that data begins with. It
// checks the runs, and that the bytes are there.
func containerSize(kind Kind, rows int, data []byte) (int, error) {
	size := bitmapBytes
	switch kind {
	case Array:
		size = 2 * rows
	case Run:
		if len(data) < 2 {
			return 0, fmt.Errorf("%d bytes for the number of runs", len(data))
		}
		size = runBytes(int(le.Uint16(data)))
	}
	if size > len(data) {
		return 0, fmt.Errorf("%d bytes, %d left", size, len(data))
	}
	if kind == Run {
		return size, checkRuns(data[2:size], rows)
	}
	return size, nil
}

// runBytes is the size of a container of n runs.
func runBytes(n int) int { return 2 + 4*n }

// checkRuns refuses runs that do not ascend, that overlap, touch or end above
// 65,535, or that have another number of rows.
func checkRuns(d []byte, rows int) error {
	last, sum := -2, 0
	for len(d) >= 4 {
		first, more := int(le.Uint16(d)), int(le.Uint16(d[2:]))
		if first <= last+1 {
			return fmt.Errorf("run at %d after one that ends at %d", first, last)
		}
		if last = first + more; last > math.MaxUint16 {
			return fmt.Errorf("run ends at %d", last)
		}
		sum += more + 1
		d = d[4:]
	}
	if sum != rows {
		return fmt.Errorf("runs of %d rows have %d", rows, sum)
	}
	return nil
}

// keys is where the pairs of key and cardinality-1 are.
func (v View) keys() int {
	if v.runs {
		return 4 + (v.count+7)/8
	}
	return 8
}

func (v View) hasOffsets() bool { return !v.runs || v.count >= noOffsetBelow }
func (v View) offsets() int     { return v.keys() + 4*v.count }

// body is where the containers are.
func (v View) body() int {
	if v.hasOffsets() {
		return v.offsets() + 4*v.count
	}
	return v.offsets()
}

// pairs is the key and cardinality-1 of each container.
func (v View) pairs() []byte {
	if v.count == 0 {
		return nil
	}
	return v.data[v.keys():v.offsets()]
}

// head is container i without its bytes.
func (v View) head(i int) Container { return v.container(i, v.pairs()[4*i:]) }

// container is container i without its bytes; pairs begins with its own.
func (v View) container(i int, pairs []byte) Container {
	pair := le.Uint32(pairs)
	c := Container{Key: uint16(pair), Rows: int(pair>>16) + 1}
	switch {
	case v.runs && v.data[4+i/8]&(1<<(i%8)) != 0:
		c.Kind = Run
	case c.Rows > maxArray:
		c.Kind = Bitmap
	}
	return c
}

// sizeAt is the size of a container, which Parse has seen, at byte off.
func (v View) sizeAt(c Container, off int) int {
	switch c.Kind {
	case Array:
		return 2 * c.Rows
	case Bitmap:
		return bitmapBytes
	default:
		return runBytes(int(le.Uint16(v.data[off:])))
	}
}

// Len is the number of containers.
func (v View) Len() int { return v.count }

// Rows is the number of rows, as the headers say.
func (v View) Rows() (n uint64) {
	for p := v.pairs(); len(p) >= 4; p = p[4:] {
		n += uint64(le.Uint16(p[2:])) + 1
	}
	return n
}

// At is container i, from 0, in ascending order of keys.
func (v View) At(i int) Container {
	off := v.body()
	if v.hasOffsets() {
		off = int(le.Uint32(v.data[v.offsets()+4*i:]))
	} else {
		for j := range i { // at most two
			off += v.sizeAt(v.head(j), off)
		}
	}
	c := v.head(i)
	c.Data = v.data[off : off+v.sizeAt(c, off)]
	return c
}

// Find is the container that has the key; false where none has.
func (v View) Find(key uint16) (Container, bool) {
	i := sort.Search(v.count, func(i int) bool { return v.head(i).Key >= key })
	if i == v.count || v.head(i).Key != key {
		return Container{}, false
	}
	return v.At(i), true
}
