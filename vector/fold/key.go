package fold

import (
	"slices"
	"sort"
)

// task is what is done with what a key folds to.
type task uint8

const (
	taskCount task = iota // its rows are counted
	taskRows              // it is written, as a container of a stream
	taskWord              // it goes into a word, if it can
	taskLeg               // nothing is folded: each range's part is written to a frame
)

// worker folds keys, one after the other. All that it needs is made once.
type worker struct {
	g    *Gather
	task task
	out  *output // of taskRows and taskLeg

	count uint64 // of taskCount
	word  uint64 // of taskWord
	above bool   // there is a row above 63

	r, s  acc
	list  []uint16 // ascending rows, where they are few
	order []int    // the ranges, the rarest first
}

func (w *worker) begin(t task) {
	w.task = t
	w.count, w.word, w.above = 0, 0, false
	if w.list == nil {
		w.list = make([]uint16, 0, maxArray)
	}
}

// key folds one key: spans is what each range has of it.
func (w *worker) key(key uint16, spans []span) {
	if w.task == taskLeg {
		for i := range spans {
			w.leg(key, i, &spans[i])
		}
		return
	}
	if len(spans) == 1 {
		w.union(key, &w.g.parts[0], &spans[0])
		return
	}
	w.rank(spans)
	if w.few(&w.g.parts[w.order[0]], &spans[w.order[0]]) {
		w.meetFew(key, spans)
	} else {
		w.meet(key, spans)
	}
}

// only is a span's container, where that is all that the span has.
func (g *Gather) only(p *part, s *span) *ref {
	if s.refEnd-s.ref == 1 && s.rowEnd == s.row {
		return &p.refs[s.ref]
	}
	return nil
}

// rank orders the ranges by their rows of this key.
func (w *worker) rank(spans []span) {
	w.order = w.order[:0]
	for i := range spans {
		w.order = append(w.order, i)
	}
	slices.SortFunc(w.order, func(i, j int) int { return spans[i].rows - spans[j].rows })
}

// union is the answer where there is one range.
func (w *worker) union(key uint16, p *part, s *span) {
	only := w.g.only(p, s)
	switch {
	case only != nil && w.task == taskCount:
		w.count += uint64(only.rows())
		return
	case only != nil && only.kind == Bitmap:
		w.bits(key, (*bitset)(w.g.data(only)))
		return
	case only != nil && w.task == taskRows && w.out.same(key, only, w.g.data(only)):
		return
	}
	w.r.fill(w.g, p, s)
	w.acc(key)
}

// acc takes what is in the first accumulator, and wipes it.
func (w *worker) acc(key uint16) {
	if w.r.dense {
		w.bits(key, &w.r.bits)
	} else {
		w.rows(key, w.r.appendList(w.list[:0]))
	}
	w.r.wipe()
}

// few puts the rows of a span into the list, if they are few, or already a list.
func (w *worker) few(p *part, s *span) bool {
	only := w.g.only(p, s)
	switch {
	case only != nil && only.kind == Array:
		w.list = w.list[:0]
		for d := w.g.data(only); len(d) >= 2; d = d[2:] {
			w.list = append(w.list, le.Uint16(d))
		}
	case s.rows <= sparseRows:
		w.r.fill(w.g, p, s)
		w.list = w.r.appendList(w.list[:0])
		w.r.wipe()
	default:
		return false
	}
	return true
}

// meetFew keeps of the list what every other range has.
func (w *worker) meetFew(key uint16, spans []span) {
	for _, i := range w.order[1:] {
		p, s := &w.g.parts[i], &spans[i]
		only := w.g.only(p, s)
		switch {
		case only != nil && only.kind == Bitmap:
			w.keep((*bitset)(w.g.data(only)))
		case s.rowEnd == s.row && len(w.list)*(s.refEnd-s.ref)*64 < s.rows+2000:
			w.seek(p.refs[s.ref:s.refEnd])
		default:
			w.s.fill(w.g, p, s)
			w.keep(&w.s.bits)
			w.s.wipe()
		}
		if len(w.list) == 0 {
			return
		}
	}
	w.rows(key, w.list)
}

// keep keeps of the list what is in x.
func (w *worker) keep(x *bitset) {
	n := 0
	for _, v := range w.list {
		w.list[n] = v
		n += x.has(v)
	}
	w.list = w.list[:n]
}

// seek keeps of the list what is in one of the containers, which it searches for
// each row: cheaper than to walk over them where the list is much shorter.
func (w *worker) seek(refs []ref) {
	n := 0
	for _, v := range w.list {
		for i := range refs {
			if holds(refs[i].kind, w.g.data(&refs[i]), v) {
				w.list[n] = v
				n++
				break
			}
		}
	}
	w.list = w.list[:n]
}

// holds tells whether row v is in a container.
func holds(kind Kind, d []byte, v uint16) bool {
	switch kind {
	case Bitmap:
		return (*bitset)(d).has(v) == 1
	case Array:
		n := len(d) / 2
		i := sort.Search(n, func(i int) bool { return le.Uint16(d[2*i:]) >= v })
		return i < n && le.Uint16(d[2*i:]) == v
	default:
		d = d[2:]
		i := sort.Search(len(d)/4, func(i int) bool { return le.Uint16(d[4*i:]) > v }) - 1
		return i >= 0 && v-le.Uint16(d[4*i:]) <= le.Uint16(d[4*i+2:])
	}
}

// meet is the AND of ranges of which none has few rows.
func (w *worker) meet(key uint16, spans []span) {
	first, last := w.order[0], w.order[len(w.order)-1]
	sum := w.bitsOf(&w.r, &w.g.parts[first], &spans[first])
	some := true
	for _, i := range w.order[1 : len(w.order)-1] {
		x := w.bitsOf(&w.s, &w.g.parts[i], &spans[i])
		w.r.dense = true
		some = w.r.bits.and(sum, x)
		sum = &w.r.bits
		w.s.wipe()
		if !some {
			break
		}
	}
	if some {
		x := w.bitsOf(&w.s, &w.g.parts[last], &spans[last])
		w.meetLast(key, sum, x)
		w.s.wipe()
	}
	w.r.wipe()
}

// meetLast takes what is both in x and in y, without a further walk over the
// words where there are few rows.
func (w *worker) meetLast(key uint16, x, y *bitset) {
	if w.task == taskCount {
		w.count += uint64(x.countAnd(y))
		return
	}
	if rows := w.r.and(x, y); rows <= maxArray/4 {
		w.rows(key, w.r.appendList(w.list[:0]))
	} else {
		w.bits(key, &w.r.bits)
	}
}

// bitsOf is a span's rows: in the container that is all it has, or in a.
func (w *worker) bitsOf(a *acc, p *part, s *span) *bitset {
	if only := w.g.only(p, s); only != nil && only.kind == Bitmap {
		return (*bitset)(w.g.data(only))
	}
	a.fill(w.g, p, s)
	return &a.bits
}

// bits takes a key's rows.
func (w *worker) bits(key uint16, b *bitset) {
	switch w.task {
	case taskCount:
		w.count += uint64(b.count())
	case taskRows, taskLeg:
		w.out.bits(key, b)
	case taskWord:
		from := 0
		if key == 0 {
			w.word, from = le.Uint64(b[:]), 64
		}
		w.above = w.above || b.next(from, 0) < 1<<16
	}
}

// rows takes a key's rows. Nothing is in r, where they do not ascend.
func (w *worker) rows(key uint16, list []uint16) {
	switch w.task {
	case taskCount:
		w.count += uint64(len(list))
	case taskRows, taskLeg:
		if !w.out.list(key, list) { // an array of somebody's does not ascend
			for _, v := range list {
				w.r.bits.or(uint64(v)>>3, 1<<(v&63))
			}
			w.out.bits(key, &w.r.bits)
			w.r.wipe()
		}
	case taskWord:
		for _, v := range list {
			if key > 0 || v > 63 {
				w.above = true
				return
			}
			w.word |= 1 << v
		}
	}
}

// leg writes what a range has of a key: the containers as they are, where they
// are smaller than a bitmap, else their OR. A bitmap alone stays as it is.
func (w *worker) leg(key uint16, rng int, s *span) {
	p := &w.g.parts[rng]
	w.out.rng = uint16(rng)
	if s.bytes > bitmapBytes || s.bytes == bitmapBytes && w.g.only(p, s) == nil {
		w.r.fill(w.g, p, s)
		w.acc(key)
		return
	}
	for i := range p.refs[s.ref:s.refEnd] {
		r := &p.refs[s.ref+i]
		w.out.copy(key, r, w.g.data(r))
	}
	if s.rowEnd > s.row {
		rows := span{row: s.row, rowEnd: s.rowEnd, rows: s.rowEnd - s.row}
		w.r.fill(w.g, p, &rows)
		w.acc(key)
	}
}
