package fold

import "slices"

// output is containers that are written one after the other, for a stream or
// for a frame.
type output struct {
	frame bool   // each has its record's head before it
	rng   uint16 // and that names this range
	heads []head
	body  []byte
}

// head is what a stream's header says of a container.
type head struct {
	size uint32
	key  uint16
	more uint16 // rows less one
	kind Kind
}

func (o *output) reset(frame bool) {
	o.frame = frame
	o.heads, o.body = o.heads[:0], o.body[:0]
}

// begin begins a container, before its bytes are appended to the body.
func (o *output) begin(kind Kind, key uint16, rows int) {
	o.heads = append(o.heads, head{key: key, more: uint16(rows - 1), kind: kind})
	if o.frame {
		o.body = appendRecord(o.body, o.rng, o.heads[len(o.heads)-1])
	}
	o.heads[len(o.heads)-1].size = uint32(len(o.body))
}

// end ends the container that was begun.
func (o *output) end() {
	h := &o.heads[len(o.heads)-1]
	h.size = uint32(len(o.body) - int(h.size))
}

// copy writes a container as it is.
func (o *output) copy(key uint16, r *ref, d []byte) {
	o.begin(r.kind, key, r.rows())
	o.body = append(o.body, d...)
	o.end()
}

// same writes an array or runs as they are, where no other kind is smaller, and
// where an array ascends; else it does nothing and says false.
func (o *output) same(key uint16, r *ref, d []byte) bool {
	runs := 0
	if r.kind == Run {
		runs = len(d) / 4
	} else {
		last := -2
		for rest := d; len(rest) >= 2; rest = rest[2:] {
			v := int(le.Uint16(rest))
			if v <= last {
				return false
			}
			if v != last+1 {
				runs++
			}
			last = v
		}
	}
	if smallest(r.rows(), runs) != r.kind {
		return false
	}
	o.copy(key, r, d)
	return true
}

// smallest is the kind that needs the fewest bytes.
func smallest(rows, runs int) Kind {
	switch {
	case runBytes(runs) < min(bitmapBytes, 2*rows):
		return Run
	case rows <= maxArray:
		return Array
	default:
		return Bitmap
	}
}

// bits writes the rows of b, if there are any.
func (o *output) bits(key uint16, b *bitset) {
	rows, runs := b.measure()
	if rows == 0 {
		return
	}
	kind := smallest(rows, runs)
	o.begin(kind, key, rows)
	switch kind {
	case Run:
		o.body = slices.Grow(o.body, runBytes(runs))
		o.body = le.AppendUint16(o.body, uint16(runs))
		o.body = b.appendRuns(o.body)
	case Array:
		n := len(o.body)
		o.body = slices.Grow(o.body, bitmapBytes)
		b.toArray((*bitset)(o.body[n : n+bitmapBytes]))
		o.body = o.body[:n+2*rows]
	default:
		o.body = append(o.body, b[:]...)
	}
	o.end()
}

// list writes rows, if there are any: at most 4,096. Where they do not ascend,
// it does nothing and says false.
func (o *output) list(key uint16, list []uint16) bool {
	if len(list) == 0 {
		return true
	}
	runs, last := 0, -2
	for _, v := range list {
		if int(v) <= last {
			return false
		}
		if int(v) != last+1 {
			runs++
		}
		last = int(v)
	}
	kind := smallest(len(list), runs)
	o.begin(kind, key, len(list))
	if kind == Run {
		o.body = le.AppendUint16(o.body, uint16(runs))
		for i, from := 1, 0; i <= len(list); i++ {
			if i == len(list) || int(list[i]) != int(list[i-1])+1 {
				o.body = le.AppendUint16(o.body, list[from])
				o.body = le.AppendUint16(o.body, uint16(i-from-1))
				from = i
			}
		}
	} else {
		for _, v := range list {
			o.body = le.AppendUint16(o.body, v)
		}
	}
	o.end()
	return true
}
