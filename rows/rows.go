// Package rows turns the bitmaps of the wire (row_bitmap of structs.x) into
// vector.Bitmap and back. Roaring bytes are those of CRoaring's portable format.
package rows

import (
	"errors"
	"fmt"

	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// MaxBytes is the most that one bitmap may take in a record: the record limit
// less room for what stands around it.
const MaxBytes = rpc.DefaultMaxRecord - 64<<10

var (
	// ErrTooLarge: the bitmap does not fit a record in this format.
	ErrTooLarge = errors.New("rows: bitmap does not fit a record")
	// ErrFormat: not a format that carries rows, or an unknown one.
	ErrFormat = errors.New("rows: bitmap format")
)

// Decode reads a bitmap that came from outside. Trailing zero words are accepted
// and dropped; BITMAP_NONE has no rows and is ErrFormat.
func Decode(w *structs.RowBitmap) (*vector.Bitmap, error) {
	switch w.Format {
	case structs.BITMAP_WORDS:
		return vector.FromWords(w.Words)
	case structs.BITMAP_ROARING:
		return vector.ReadRoaring(w.Roaring)
	}
	return nil, fmt.Errorf("%w: %v has no rows", ErrFormat, w.Format)
}

// Encode writes b in the given format; BITMAP_NONE leaves the rows out. b is
// brought into its smallest form by BITMAP_ROARING, so nobody else may read it
// meanwhile.
func Encode(b *vector.Bitmap, format structs.RowBitmapFormat) (structs.RowBitmap, error) {
	w := structs.RowBitmap{Format: format}
	size := Size(b, format)
	if size > MaxBytes {
		return w, fmt.Errorf("%w: %d bytes as %v, at most %d", ErrTooLarge, size, format, uint64(MaxBytes))
	}
	switch format {
	case structs.BITMAP_WORDS:
		w.Words = b.Words()
	case structs.BITMAP_ROARING:
		w.Roaring = b.AppendRoaring(nil)
	case structs.BITMAP_NONE:
	default:
		return w, fmt.Errorf("%w: %v is unknown", ErrFormat, format)
	}
	return w, nil
}

// Size is the number of bytes of b's rows on the wire. It brings b into its
// smallest form as Encode does.
func Size(b *vector.Bitmap, format structs.RowBitmapFormat) uint64 {
	switch format {
	case structs.BITMAP_WORDS:
		return 8 * b.WordCount()
	case structs.BITMAP_ROARING:
		b.Optimize()
		return b.RoaringSize()
	}
	return 0
}
