package fold

import (
	"context"
	"fmt"
	"slices"
)

// A frame is what one machine's leg of a query answers: containers by range and
// key, of keys in a window. All little-endian:
//
//	0  cookie   u32  "SFK1"
//	4  records  u32  how many follow; nothing follows them
//	records, in ascending order of key, and of range in a key:
//	0  range    u16
//	2  key      u16
//	4  rows-1   u16
//	6  kind     u16  0 array, 1 bitmap, 2 runs
//	8  the container, as a portable Roaring stream has it
//
// A range may have several containers of a key: the OR is left to who reads.
const (
	frameCookie = 0x314b4653
	frameHead   = 8
	recordHead  = 8
)

// LegBytes is about how large a frame should be: large enough that a call for
// it is nothing beside it, small enough that some of them fit in memory.
const LegBytes = 4 << 20

func appendRecord(dst []byte, rng uint16, h head) []byte {
	dst = le.AppendUint16(dst, rng)
	dst = le.AppendUint16(dst, h.key)
	dst = le.AppendUint16(dst, h.more)
	return le.AppendUint16(dst, uint16(h.kind))
}

// Leg appends a frame with what each range has of the keys in [first, end): the
// containers as they were added while those of a key are under 8 KiB, else one
// that is their OR, in its smallest form. Rows of small arrays come as one
// container. It stops before limit bytes are exceeded, but not before one key is
// done, and returns the key where to go on, or end. Its error is that of ctx;
// then dst is returned.
func (g *Gather) Leg(ctx context.Context, dst []byte, first, end, limit int) (out []byte, next int, err error) {
	if len(g.parts) > 1<<16 {
		return dst, first, fmt.Errorf("fold: %d ranges; a frame has at most %d", len(g.parts), 1<<16)
	}
	next = g.align(first, end, limit-frameHead, false)
	start := len(dst)
	out = slices.Grow(dst, frameHead+g.size)
	out = le.AppendUint32(out, frameCookie)
	out = append(out, 0, 0, 0, 0)
	g.frame = out
	err = g.run(ctx, taskLeg)
	alone := g.frame == nil
	g.frame = nil
	records := 0
	for i := range g.outs {
		records += len(g.outs[i].heads)
		if alone {
			out, g.outs[i].body, g.spare = g.outs[i].body, g.spare, nil
		} else {
			out = append(out, g.outs[i].body...)
		}
	}
	if err != nil {
		return dst, first, err
	}
	le.PutUint32(out[start+4:], uint32(records))
	return out, next, nil
}

// Frame is a frame's bytes that were checked.
type Frame struct {
	data    []byte
	records int
	ranges  int // all that are named are below it
}

// ParseFrame checks the structure of all of data, as Parse does: a frame for a
// query of so many ranges, and for the keys in [first, end).
func ParseFrame(data []byte, ranges, first, end int) (Frame, error) {
	if len(data) < frameHead || uint64(len(data)) >= 1<<32 || le.Uint32(data) != frameCookie {
		return Frame{}, fmt.Errorf("%w: no frame in %d bytes", ErrBytes, len(data))
	}
	f := Frame{data: data, ranges: ranges}
	records := le.Uint32(data[4:])
	off, last := frameHead, 0
	for uint32(f.records) < records {
		rng, c, err := f.record(off)
		if err != nil {
			return Frame{}, fmt.Errorf("%w: record %d of %d at byte %d: %w", ErrBytes, f.records, records, off, err)
		}
		at := int(c.Key)<<16 | rng
		switch {
		case rng >= ranges:
			err = fmt.Errorf("range %d of %d", rng, ranges)
		case int(c.Key) < first || int(c.Key) >= end:
			err = fmt.Errorf("key %d is not in [%d, %d)", c.Key, first, end)
		case at < last:
			err = fmt.Errorf("key %d, range %d after key %d, range %d", c.Key, rng, last>>16, last&0xffff)
		}
		if err != nil {
			return Frame{}, fmt.Errorf("%w: record %d of %d at byte %d: %w", ErrBytes, f.records, records, off, err)
		}
		last = at
		off += recordHead + len(c.Data)
		f.records++
	}
	if off != len(data) {
		return Frame{}, fmt.Errorf("%w: %d bytes after the last record", ErrBytes, len(data)-off)
	}
	return f, nil
}

// record checks and reads the record at byte off.
func (f Frame) record(off int) (rng int, c Container, err error) {
	d := f.data[off:]
	if len(d) < recordHead {
		return 0, c, fmt.Errorf("%d bytes left", len(d))
	}
	c = Container{Key: le.Uint16(d[2:]), Rows: int(le.Uint16(d[4:])) + 1}
	kind := le.Uint16(d[6:])
	if kind > uint16(Run) || Kind(kind) == Array && c.Rows > maxArray {
		return 0, c, fmt.Errorf("kind %d with %d rows", kind, c.Rows)
	}
	c.Kind = Kind(kind)
	size, err := containerSize(c.Kind, c.Rows, d[recordHead:])
	if err != nil {
		return 0, c, err
	}
	c.Data = d[recordHead : recordHead+size]
	return int(le.Uint16(d)), c, nil
}

// AddFrame adds what a frame has to its ranges.
func (g *Gather) AddFrame(f Frame) {
	if f.ranges > len(g.parts) {
		panic(fmt.Sprintf("fold: a frame for %d ranges and %d are there", f.ranges, len(g.parts)))
	}
	g.sorted = false
	off := frameHead
	for range f.records {
		d := f.data[off:]
		h := head{key: le.Uint16(d[2:]), more: le.Uint16(d[4:]), kind: Kind(d[6])}
		h.size = uint32(bitmapBytes)
		switch h.kind {
		case Array:
			h.size = 2 * (uint32(h.more) + 1)
		case Run:
			h.size = uint32(runBytes(int(le.Uint16(d[recordHead:]))))
		}
		p := &g.parts[le.Uint16(d)]
		off += recordHead
		if h.kind == Array && h.more < fewRows {
			p.copyRows(h.key, d[recordHead:recordHead+h.size])
		} else {
			p.refs = append(p.refs, ref{uint32(len(g.inputs)), uint32(off), h.size, h.key, h.more, h.kind})
		}
		off += int(h.size)
	}
	g.input(f.data)
}
