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
func Decode(w *structs.RowBitmap) (*vector.Bitmap, error) { return DecodeFrom(w, 0) }

// DecodeFrom is Decode for a page that was asked for from row first on: its words
// begin at the word of that row.
func DecodeFrom(w *structs.RowBitmap, first uint64) (*vector.Bitmap, error) {
	switch w.Format {
	case structs.BITMAP_WORDS:
		return vector.FromWordsAt(first/64, w.Words)
	case structs.BITMAP_ROARING:
		return vector.ReadRoaring(w.Roaring)
	}
	return nil, fmt.Errorf("%w: %v has no rows", ErrFormat, w.Format)
}

// Encode writes b in the given format; BITMAP_NONE leaves the rows out. b is
// brought into its smallest form by BITMAP_ROARING, so nobody else may read it
// meanwhile.
func Encode(b *vector.Bitmap, format structs.RowBitmapFormat) (structs.RowBitmap, error) {
	return encode(b, 0, format)
}

// EncodeFrom is Encode for an answer, or for its page that was asked for from row
// first on, below which b has no row: its words begin at the word of that row.
// ErrTooLarge then comes with a page that fits.
func EncodeFrom(b *vector.Bitmap, first uint64, format structs.RowBitmapFormat) (structs.RowBitmap, error) {
	w, err := encode(b, first, format)
	if errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: %s", err, instead(b, first, format))
	}
	return w, err
}

func encode(b *vector.Bitmap, first uint64, format structs.RowBitmapFormat) (structs.RowBitmap, error) {
	w := structs.RowBitmap{Format: format}
	if size := SizeFrom(b, first, format); size > MaxBytes {
		return w, fmt.Errorf("%w: %d bytes as %v, at most %d", ErrTooLarge, size, format, uint64(MaxBytes))
	}
	switch format {
	case structs.BITMAP_WORDS:
		w.Words = b.WordsAt(first / 64)
	case structs.BITMAP_ROARING:
		w.Roaring = b.AppendRoaring(nil)
	case structs.BITMAP_NONE:
	default:
		return w, fmt.Errorf("%w: %v is unknown", ErrFormat, format)
	}
	return w, nil
}

// Stream is the answer whose rows are this stream in the portable Roaring format.
func Stream(roaring []byte) (structs.RowBitmap, error) {
	w := structs.RowBitmap{Format: structs.BITMAP_ROARING}
	if len(roaring) > MaxBytes {
		return w, fmt.Errorf("%w: %d bytes as %v, at most %d: use pages (max_rows)", ErrTooLarge, len(roaring), w.Format, uint64(MaxBytes))
	}
	w.Roaring = roaring
	return w, nil
}

// Size is the number of bytes of b's rows on the wire. It brings b into its
// smallest form as Encode does.
func Size(b *vector.Bitmap, format structs.RowBitmapFormat) uint64 { return SizeFrom(b, 0, format) }

// SizeFrom is Size for a page that was asked for from row first on.
func SizeFrom(b *vector.Bitmap, first uint64, format structs.RowBitmapFormat) uint64 {
	switch format {
	case structs.BITMAP_WORDS:
		return 8 * b.WordCount(first/64)
	case structs.BITMAP_ROARING:
		b.Optimize()
		return b.RoaringSize()
	}
	return 0
}

// instead says what to ask for in place of a page that is too large, in numbers
// that work.
func instead(b *vector.Bitmap, first uint64, format structs.RowBitmapFormat) string {
	if format != structs.BITMAP_WORDS {
		return "use pages (max_rows)"
	}
	last := first/64*64 + MaxBytes/8*64 - 1 // of the rows that fit, from first on
	fit := vector.New()
	fit.AddRange(0, uint32(min(last, 1<<32-1)))
	fit.And(b)
	if n := fit.Count(); n > 0 {
		return fmt.Sprintf("use roaring, or pages (first_row %d with max_rows %d fits)", first, n)
	}
	return fmt.Sprintf("use roaring, or pages (the first row is %[1]d: first_row %[1]d)", b.Rows(0, 1)[0])
}
