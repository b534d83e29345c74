package vector

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	cookieRuns    = 12347
	cookieNoRuns  = 12346
	noOffsetBelow = 4 // streams with runs have no offsets under so many containers
	maxContainers = 1 << 16
	maxArray      = 4096
	bitmapBytes   = 8192
)

// stream walks over serialized bytes.
type stream struct {
	data []byte
	off  int
}

func (s *stream) fail(format string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrBitmap, s.off, fmt.Sprintf(format, args...))
}

// take returns the next n bytes.
func (s *stream) take(n int, what string) ([]byte, error) {
	if n > len(s.data)-s.off {
		return nil, s.fail("%s of %d bytes, %d left", what, n, len(s.data)-s.off)
	}
	b := s.data[s.off : s.off+n]
	s.off += n
	return b, nil
}

// checkStream walks all of data in one pass and without allocating, and returns
// how many runs there are. Its errors wrap ErrBitmap.
func checkStream(data []byte) (runs int, err error) {
	s := &stream{data: data}
	count, isRun, err := s.cookie()
	if err != nil {
		return 0, err
	}
	header, err := s.take(4*count, "keys")
	if err != nil {
		return 0, err
	}
	var offsets []byte
	if isRun == nil || count >= noOffsetBelow {
		if offsets, err = s.take(4*count, "offsets"); err != nil {
			return 0, err
		}
	}
	lastKey := -1
	for i := range count {
		key := int(binary.LittleEndian.Uint16(header[4*i:]))
		rows := int(binary.LittleEndian.Uint16(header[4*i+2:])) + 1
		if key <= lastKey {
			return 0, s.fail("key %d after %d", key, lastKey)
		}
		lastKey = key
		if offsets != nil {
			if at := binary.LittleEndian.Uint32(offsets[4*i:]); uint64(at) != uint64(s.off) {
				return 0, s.fail("offset of container %d is %d", i, at)
			}
		}
		switch {
		case isRun != nil && isRun[i/8]&(1<<(i%8)) != 0:
			n, err := s.runs(rows)
			if err != nil {
				return 0, err
			}
			runs += n
		case rows > maxArray:
			err = s.bitmap(rows)
		default:
			err = s.array(rows)
		}
		if err != nil {
			return 0, err
		}
	}
	if s.off != len(data) {
		return 0, s.fail("%d bytes after the last container", len(data)-s.off)
	}
	return runs, nil
}

// cookie reads how many containers follow and, where there can be runs, which
// of them are.
func (s *stream) cookie() (count int, isRun []byte, err error) {
	b, err := s.take(4, "cookie")
	if err != nil {
		return 0, nil, err
	}
	switch cookie := binary.LittleEndian.Uint32(b); {
	case cookie&0xffff == cookieRuns:
		count = int(cookie>>16) + 1
		isRun, err = s.take((count+7)/8, "run flags")
		return count, isRun, err
	case cookie == cookieNoRuns:
		if b, err = s.take(4, "count of containers"); err != nil {
			return 0, nil, err
		}
		n := binary.LittleEndian.Uint32(b)
		if n > maxContainers {
			return 0, nil, s.fail("%d containers", n)
		}
		return int(n), nil, nil
	default:
		return 0, nil, s.fail("cookie %#x", cookie)
	}
}

func (s *stream) array(rows int) error {
	b, err := s.take(2*rows, "array")
	if err != nil {
		return err
	}
	last := -1
	for i := 0; i < len(b); i += 2 {
		row := int(binary.LittleEndian.Uint16(b[i:]))
		if row <= last {
			return s.fail("array has %d after %d", row, last)
		}
		last = row
	}
	return nil
}

func (s *stream) bitmap(rows int) error {
	b, err := s.take(bitmapBytes, "bitmap")
	if err != nil {
		return err
	}
	n := 0
	for i := 0; i < len(b); i += 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b[i:]))
	}
	if n != rows {
		return s.fail("bitmap of %d rows has %d", rows, n)
	}
	return nil
}

// runs checks a run container: runs ascend and neither overlap nor touch.
func (s *stream) runs(rows int) (int, error) {
	b, err := s.take(2, "count of runs")
	if err != nil {
		return 0, err
	}
	n := int(binary.LittleEndian.Uint16(b))
	if b, err = s.take(4*n, "runs"); err != nil {
		return 0, err
	}
	last, sum := -2, 0
	for i := 0; i < len(b); i += 4 {
		start := int(binary.LittleEndian.Uint16(b[i:]))
		length := int(binary.LittleEndian.Uint16(b[i+2:])) + 1
		if start <= last+1 {
			return 0, s.fail("run at %d after one that ends at %d", start, last)
		}
		if last = start + length - 1; last > 0xffff {
			return 0, s.fail("run ends at %d", last)
		}
		sum += length
	}
	if sum != rows {
		return 0, s.fail("runs of %d rows have %d", rows, sum)
	}
	return n, nil
}
