package xdr

const (
	firstSlab  = 16 // nodes
	slabGrowth = 64
)

// Slabs sizes the allocations from which the nodes of one list are taken: few,
// and together at most about three times what the input can hold. The zero
// value is ready.
type Slabs struct {
	made  int
	start int // offset at which the first node began
}

// Next returns how many nodes to allocate when those so far are used up.
// minNode is the least number of bytes of a node in the input.
//
// The first list of an input is taken to be most of it: once there are some
// nodes, their mean length says how many more would fit. A later list is taken
// to be as long as those before it.
func (s *Slabs) Next(d *Decoder, minNode int) int {
	n := firstSlab
	switch {
	case s.made == 0:
		s.start = d.off
		d.win.many()
		if d.lists > 0 {
			n = d.nodes/d.lists + 1
		}
		d.lists++
	case d.lists == 1:
		mean := max((d.off-s.start)/s.made, minNode)
		n = min(max(d.Len()/mean+1, firstSlab), slabGrowth*s.made)
	default:
		n = s.made
	}
	n = max(1, min(n, d.Len()/minNode, (2*len(d.buf)-d.slabbed)/minNode))
	s.made += n
	d.slabbed += n * minNode
	return n
}
