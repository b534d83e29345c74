package xdr_test

import (
	"math"
	"testing"

	"starfish/xdr"
)

// FuzzDecoder reads data by a program of reads: no panic, no read beyond the
// end, and nothing larger than the input.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"), []byte("\x00\x00\x00\x01\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x01"), false)
	f.Add([]byte{3, 3, 3}, []byte("\xff\xff\xff\xff\x00\x00\x00\x00"), true)
	f.Add([]byte{4, 6, 3, 5}, []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x01"), false)
	f.Fuzz(func(t *testing.T, reads, data []byte, lax bool) {
		d := xdr.NewDecoder(data)
		d.Lax = lax
		for _, r := range reads {
			bound := uint32(math.MaxUint32)
			if r&0x80 != 0 {
				bound = 3
			}
			before, failed, size := d.Len(), d.Err() != nil, 0
			switch r & 0x7f % 13 {
			case 0:
				d.Uint32()
			case 1:
				d.Uint64()
			case 2:
				d.Bool()
			case 3:
				size = len(d.String(bound))
			case 4:
				size = len(d.Opaque(bound))
			case 5:
				d.FixedOpaque(make([]byte, r))
			case 6:
				size = d.ArrayLen(bound, 1+int(r>>4))
			case 7:
				d.More()
			case 8:
				d.Enter()
			case 9:
				size = len(d.Rest())
			case 10:
				d.Quad()
			case 11:
				d.Float32()
			case 12:
				d.Int64()
			}
			if size > before {
				t.Fatalf("read %d: %d bytes of %d", r, size, before)
			}
			if d.Len() > before || failed && (d.Len() != 0 || size != 0) || d.Offset() > len(data) {
				t.Fatalf("read %d: %d left of %d, offset %d, failed %v", r, d.Len(), before, d.Offset(), failed)
			}
		}
	})
}
