package fold

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Stream is an answer that is made window by window: each Gather appends the
// rows of some keys, in ascending order, and Append writes all that there are.
// The zero value has none.
type Stream struct {
	out  output
	rows uint64
}

// AppendTo adds to s the rows that are in all ranges and have a key in
// [first, end), which are above all keys of s. Where it fails s is as it was.
func (g *Gather) AppendTo(ctx context.Context, s *Stream, first, end int) error {
	if n := len(s.out.heads); n > 0 && int(s.out.heads[n-1].key) >= first {
		return fmt.Errorf("fold: keys from %d on are added to an answer that has key %d", first, s.out.heads[n-1].key)
	}
	g.align(first, end, math.MaxInt, true)
	if err := g.run(ctx, taskRows); err != nil {
		return err
	}
	for i := range g.outs {
		s.out.body = append(s.out.body, g.outs[i].body...)
		s.out.heads = append(s.out.heads, g.outs[i].heads...)
		for _, h := range g.outs[i].heads {
			s.rows += uint64(h.more) + 1
		}
	}
	return nil
}

// Rows is the number of rows.
func (s *Stream) Rows() uint64 { return s.rows }

// Size is the number of bytes that Append adds.
func (s *Stream) Size() int { return streamHead([]output{s.out}).body() + len(s.out.body) }

// Append appends the rows as one portable Roaring stream.
func (s *Stream) Append(dst []byte) []byte { return appendStream(dst, []output{s.out}) }

// streamHead is the view of a stream of the containers of outs, still without
// bytes.
func streamHead(outs []output) View {
	var v View
	for i := range outs {
		v.count += len(outs[i].heads)
		v.runs = v.runs || slices.ContainsFunc(outs[i].heads, func(h head) bool { return h.kind == Run })
	}
	return v
}

// appendStream appends a portable Roaring stream of the containers of outs,
// whose keys ascend from one to the next.
func appendStream(dst []byte, outs []output) []byte {
	v, size := streamHead(outs), 0
	for i := range outs {
		size += len(outs[i].body)
	}
	dst = slices.Grow(dst, v.body()+size)
	start := len(dst)
	dst = dst[:start+v.body()]
	v.data = dst[start:]
	clear(v.data)
	if v.runs {
		le.PutUint32(v.data, cookieRuns|uint32(v.count-1)<<16)
	} else {
		le.PutUint32(v.data, cookieNoRuns)
		le.PutUint32(v.data[4:], uint32(v.count))
	}
	n, off := 0, v.body()
	for i := range outs {
		for _, h := range outs[i].heads {
			if h.kind == Run {
				v.data[4+n/8] |= 1 << (n % 8)
			}
			le.PutUint32(v.data[v.keys()+4*n:], uint32(h.key)|uint32(h.more)<<16)
			if v.hasOffsets() {
				le.PutUint32(v.data[v.offsets()+4*n:], uint32(off))
			}
			off += int(h.size)
			n++
		}
		dst = append(dst, outs[i].body...)
	}
	return dst
}
