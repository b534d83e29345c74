package vector

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/stretchr/testify/require"
)

// stream builders for the refusal table; little-endian 16-bit words.
func le(words ...uint16) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint16(b, w)
	}
	return b
}

func TestReadRoaring(t *testing.T) {
	bitmap := func(card uint16, first uint64) []byte {
		b := le(12346, 0, 1, 0, 0, card-1, 16, 0)
		b = binary.LittleEndian.AppendUint64(b, first)
		for range 1023 {
			b = binary.LittleEndian.AppendUint64(b, 0x1111111111111111)
		}
		return b
	}
	for _, tt := range []struct {
		name string
		data []byte
		rows []uint32 // nil: refused
	}{
		{"Empty", le(12346, 0, 0, 0), []uint32{}},
		{"NoBytes", nil, nil},
		{"Array", le(12346, 0, 1, 0, 2, 1, 16, 0, 3, 9), []uint32{2<<16 + 3, 2<<16 + 9}},
		{"RunContainer", append(append(le(12347, 0), 1), le(0, 4, 2, 1, 1, 7, 2)...), []uint32{1, 2, 7, 8, 9}},
		{"RunTouchesNext", append(append(le(12347, 0), 1), le(0, 4, 2, 1, 1, 3, 2)...), nil},
		{"RunOverlapsNext", append(append(le(12347, 0), 1), le(0, 4, 2, 1, 4, 3, 2)...), nil},
		{"RunsDescend", append(append(le(12347, 0), 1), le(0, 4, 2, 7, 2, 1, 1)...), nil},
		{"RunPastTheEnd", append(append(le(12347, 0), 1), le(0, 9, 1, 65530, 9)...), nil},
		{"RunToTheEnd", append(append(le(12347, 0), 1), le(0, 1, 1, 65534, 1)...), []uint32{65534, 65535}},
		{"NoRuns", append(append(le(12347, 0), 1), le(0, 0, 0)...), nil},
		{"RunsOfOtherCardinality", append(append(le(12347, 0), 1), le(0, 5, 2, 1, 1, 7, 2)...), nil},
		{"ArrayUnsorted", le(12346, 0, 1, 0, 2, 1, 16, 0, 9, 3), nil},
		{"ArrayRepeats", le(12346, 0, 1, 0, 2, 1, 16, 0, 9, 9), nil},
		{"ArrayShort", le(12346, 0, 1, 0, 2, 2, 16, 0, 3, 9), nil},
		{"TrailingBytes", le(12346, 0, 1, 0, 2, 0, 16, 0, 3, 9), nil},
		{"WrongOffset", le(12346, 0, 1, 0, 2, 1, 17, 0, 3, 9), nil},
		{"KeysDescend", le(12346, 0, 2, 0, 2, 0, 1, 0, 24, 0, 26, 0, 3, 9), nil},
		{"KeysRepeat", le(12346, 0, 2, 0, 2, 0, 2, 0, 24, 0, 26, 0, 3, 9), nil},
		{"TooManyContainers", le(12346, 0, 1, 1), nil},
		{"HugeCount", le(12346, 0, 0xffff, 0xffff), nil},
		{"Cookie", le(12345, 0, 0, 0), nil},
		{"BitmapOfOtherCardinality", bitmap(16384, 0x1111111111111110), nil},
		{"NotRoaring", []byte("ID: 1 2 3\n"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := ReadRoaring(tt.data)
			if tt.rows == nil {
				require.ErrorIs(t, err, ErrBitmap)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.rows, append([]uint32{}, b.Rows(0, 0)...))
		})
	}
	b, err := ReadRoaring(bitmap(16384, 0x1111111111111111))
	require.NoError(t, err)
	require.Equal(t, uint64(16384), b.Count())
}

func TestReadRoaringDoesNotKeepItsArgument(t *testing.T) {
	data := New(1, 2, 3).AppendRoaring(nil)
	b, err := ReadRoaring(data)
	require.NoError(t, err)
	clear(data)
	require.Equal(t, []uint32{1, 2, 3}, b.Rows(0, 0))
}

// TestReadRoaringOfManyRuns: comparing all pairs of 32768 runs takes a second a
// container.
func TestReadRoaringOfManyRuns(t *testing.T) {
	data := append(le(12347, 2), 7)
	for key := range uint16(3) {
		data = append(data, le(key, 32767)...)
	}
	for range 3 {
		data = append(data, le(32768)...)
		for i := range uint16(32768) {
			data = append(data, le(2*i, 0)...)
		}
	}
	b, err := ReadRoaring(data)
	require.NoError(t, err)
	require.Equal(t, uint64(3*32768), b.Count())
	b.Optimize()
	back, err := ReadRoaring(b.AppendRoaring(nil))
	require.NoError(t, err)
	require.True(t, back.Equal(b))
}

// FuzzReadRoaring: our walk and roaring's Validate agree on what is a stream,
// and what was read can be used.
func FuzzReadRoaring(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.hex")
	require.NoError(f, err)
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		data, err := hex.DecodeString(strings.TrimSpace(string(text)))
		require.NoError(f, err, name)
		f.Add(data)
	}
	f.Add(New().AppendRoaring(nil))
	f.Add(New(1, 2, 3, 70000, 1<<32-1).AppendRoaring(nil))
	dense := New()
	for i := range uint32(5000) {
		dense.Add(i * 3)
	}
	f.Add(dense.AppendRoaring(nil))
	runs := New(5)
	runs.AddRange(100, 300000)
	runs.Optimize()
	f.Add(runs.AppendRoaring(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		b, err := ReadRoaring(data)
		var rb roaring.Bitmap
		n, rerr := rb.FromBuffer(data)
		if rerr == nil {
			rerr = rb.Validate()
		}
		if err != nil {
			require.ErrorIs(t, err, ErrBitmap)
			return // ours also refuses wrong offsets, cardinalities and trailing bytes
		}
		require.NoError(t, rerr)
		require.Equal(t, int64(len(data)), n)
		sum := New(1, 100000)
		sum.Or(b)
		require.GreaterOrEqual(t, sum.Count(), b.Count())
		sum.And(b)
		require.True(t, sum.Equal(b))
		back, err := ReadRoaring(b.AppendRoaring(nil))
		require.NoError(t, err)
		require.True(t, back.Equal(b))
	})
}

// TestReadCRoaring reads what CRoaring 0.2.66 wrote (testdata/croaring_*.hex), and
// writes the same bytes.
func TestReadCRoaring(t *testing.T) {
	rowRange := func(first, last, step uint32) (rows []uint32) {
		for r := first; r <= last; r += step {
			rows = append(rows, r)
		}
		return rows
	}
	runs := slices.Concat(rowRange(10, 199_999, 1), rowRange(300_000, 300_009, 1), []uint32{1<<32 - 1})
	for name, rows := range map[string][]uint32{
		"empty":    nil,
		"arrays":   {0, 1, 5, 63, 64, 65535, 65536, 1000000, 4294967295},
		"bitmap":   rowRange(0, 14_997, 3),
		"runs":     runs,
		"runs_few": rowRange(0, 999, 1),
		"mixed":    slices.Concat(runs, rowRange(0, 14_997, 3)),
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/croaring_" + name + ".hex")
			require.NoError(t, err)
			data, err := hex.DecodeString(strings.TrimSpace(string(text)))
			require.NoError(t, err)
			b, err := ReadRoaring(data)
			require.NoError(t, err)
			require.True(t, b.Equal(New(rows...)))
			ours := New(rows...)
			if strings.HasPrefix(name, "runs") || name == "mixed" {
				ours.Optimize()
			}
			require.Equal(t, data, ours.AppendRoaring(nil))
			for cut := range len(data) {
				_, err := ReadRoaring(data[:cut])
				require.ErrorIs(t, err, ErrBitmap)
			}
		})
	}
}
