package rpc

import "sync"

// buffer holds one message. Buffers are used again, except long ones, so that a
// pool never pins more than maxPooled bytes an entry.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 512)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// free gives the buffer back; nothing may look at its bytes any more.
func (b *buffer) free() {
	if cap(b.b) > maxPooled {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}
