package rows

import (
	"testing"

	"github.com/stretchr/testify/require"

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
