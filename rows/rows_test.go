package rows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"starfish/structs"
	"starfish/vector"
	"starfish/xdr"
)

func TestRoundTrip(t *testing.T) {
	runs := vector.New(7)
	runs.AddRange(1000, 300_000)
	for _, b := range []*vector.Bitmap{vector.New(), vector.New(0), vector.New(63, 64), runs} {
		for _, format := range []structs.RowBitmapFormat{structs.BITMAP_WORDS, structs.BITMAP_ROARING} {
			w, err := Encode(b.Clone(), format)
			require.NoError(t, err)
			wire, err := xdr.Marshal(w)
			require.NoError(t, err)
			var back structs.RowBitmap
			require.NoError(t, xdr.Unmarshal(wire, &back))
			got, err := Decode(&back)
			require.NoError(t, err)
			require.True(t, got.Equal(b), format)
			require.LessOrEqual(t, Size(b.Clone(), format), uint64(len(wire)))
		}
	}
}

func TestEncodeWords(t *testing.T) {
	w, err := Encode(vector.New(1, 64), structs.BITMAP_WORDS)
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 1}, w.Words, "no trailing zero words")
	w, err = Encode(vector.New(), structs.BITMAP_WORDS)
	require.NoError(t, err)
	require.Empty(t, w.Words)
	w, err = Encode(vector.New(5), structs.BITMAP_NONE)
	require.NoError(t, err)
	require.Equal(t, structs.RowBitmap{Format: structs.BITMAP_NONE}, w)
}

func TestRefusals(t *testing.T) {
	_, err := Encode(vector.New(1<<32-1), structs.BITMAP_WORDS)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Encode(vector.New(1<<32-1), structs.BITMAP_ROARING)
	require.NoError(t, err)
	_, err = Encode(vector.New(), 9)
	require.ErrorIs(t, err, ErrFormat)
	for _, w := range []structs.RowBitmap{{Format: structs.BITMAP_NONE}, {Format: 9}} {
		_, err = Decode(&w)
		require.ErrorIs(t, err, ErrFormat)
	}
	_, err = Decode(&structs.RowBitmap{Format: structs.BITMAP_ROARING, Roaring: []byte{1, 2, 3}})
	require.ErrorIs(t, err, vector.ErrBitmap)
	b, err := Decode(&structs.RowBitmap{Words: []uint64{1, 0, 0}})
	require.NoError(t, err)
	require.True(t, b.Equal(vector.New(0)), "trailing zero words are dropped")
}

// TestPagesTogetherAreTheWhole takes an answer page by page, from any row on, in
// each format, as a client does: what it reads is the answer, and a page of words
// costs what stands in it and not what is below.
func TestPagesTogetherAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Uint32Range(0, 1<<32-1<<21).Draw(t, "base")
		b := vector.New()
		for _, row := range rapid.SliceOfN(rapid.Uint32Range(0, 1<<20), 0, 60).Draw(t, "rows") {
			b.Add(base + row)
		}
		if run := rapid.Uint32Range(0, 1<<17).Draw(t, "run"); run > 0 {
			b.AddRange(base+1<<20, base+1<<20+run)
		}
		start := rapid.Uint64Range(uint64(base)-min(uint64(base), 200), uint64(base)+1<<21).Draw(t, "first")
		limit := rapid.Uint64Range(1+b.Count()/20, 1+b.Count()).Draw(t, "limit")
		format := rapid.SampledFrom([]structs.RowBitmapFormat{structs.BITMAP_WORDS, structs.BITMAP_ROARING}).Draw(t, "format")

		got := vector.New()
		for first := start; ; {
			page := b.Page(first, limit)
			w, err := EncodeFrom(page, first, format)
			require.NoError(t, err)
			if n := len(w.Words); n > 0 {
				top, _ := page.Max()
				require.EqualValues(t, uint64(top)/64-first/64+1, n)
				require.NotZero(t, w.Words[n-1])
				require.Zero(t, w.Words[0]&(1<<(first%64)-1), "rows below the page")
			}
			back, err := DecodeFrom(&w, first)
			require.NoError(t, err)
			require.True(t, back.Equal(page), "%d rows from %d on", limit, first)
			if back.IsEmpty() {
				break
			}
			got.Or(back)
			top, _ := back.Max()
			first = uint64(top) + 1
		}
		require.True(t, got.Equal(b.Page(start, 0)))
	})
}

// A refusal names a page that is none.
func TestRefusedPages(t *testing.T) {
	b := vector.New(7, 8, 1<<32-1)
	_, err := EncodeFrom(b, 5, structs.BITMAP_WORDS)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "(first_row 5 with max_rows 2 fits)")
	_, err = EncodeFrom(b.Page(5, 2), 5, structs.BITMAP_WORDS)
	require.NoError(t, err)
	_, err = EncodeFrom(b.Page(9, 0), 9, structs.BITMAP_WORDS)
	require.ErrorContains(t, err, "(the first row is 4294967295: first_row 4294967295)")
	w, err := EncodeFrom(b.Page(1<<32-1, 0), 1<<32-1, structs.BITMAP_WORDS)
	require.NoError(t, err)
	require.Equal(t, []uint64{1 << 63}, w.Words)
	w, err = EncodeFrom(vector.New(), 1<<63, structs.BITMAP_WORDS)
	require.NoError(t, err)
	require.Empty(t, w.Words)

	for first, words := range map[uint64][]uint64{1 << 32: {1}, 1<<32 - 1: {0, 1}, 1<<64 - 1: {1}} {
		_, err = DecodeFrom(&structs.RowBitmap{Words: words}, first)
		require.ErrorIs(t, err, vector.ErrBitmap, "from %d on", first)
	}
	got, err := DecodeFrom(&structs.RowBitmap{Words: []uint64{0, 0}}, 1<<64-1)
	require.NoError(t, err)
	require.True(t, got.IsEmpty())
}
