package xdr

const (
	firstSlab  = 16 // nodes
	slabGrowth = 64
)

// Slabs sizes the allocations from which the nodes of one list are taken: few,
// and none larger than what the rest of the input can hold. The zero value is
// ready.
type Slabs struct {
	made  int
	start int // offset at which the first node began
}

// Next returns how many nodes to allocate when those so far are used up: as
// many as the rest of the input would hold if they were as long as those, but
// at most slabGrowth times their number. minNode is the least number of bytes
// of a node in the input.
func (s *Slabs) Next(d *Decoder, minNode int) int {
	n := firstSlab
	if s.made == 0 {
		s.start = d.off
		d.win.many()
	} else {
		mean := max((d.off-s.start)/s.made, minNode)
		n = min(max(d.Len()/mean+1, firstSlab), slabGrowth*s.made)
	}
	n = max(1, min(n, d.Len()/minNode))
	s.made += n
	return n
}
