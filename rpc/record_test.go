package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// records reads records until there is an error.
func records(src io.Reader, max int) (all []string, err error) {
	r := newRecordReader(src, max)
	for {
		rec, err := r.next(nil)
		if err != nil {
			return all, err
		}
		all = append(all, string(rec))
	}
}

func TestRecordReader(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      []string
		err       error
	}{
		{"Nothing", "", nil, io.EOF},
		{"OneFragment", "80000003 616263", []string{"abc"}, io.EOF},
		{"TwoFragments", "00000002 6162 80000001 63", []string{"abc"}, io.EOF},
		{"LastFragmentEmpty", "00000003 616263 80000000", []string{"abc"}, io.EOF},
		{"EmptyFragmentsBetween", "00000001 61 00000000 00000000 80000002 6263", []string{"abc"}, io.EOF},
		{"EmptyRecord", "80000000 80000001 61", []string{"", "a"}, io.EOF},
		{"TwoRecords", "80000001 61 80000001 62", []string{"a", "b"}, io.EOF},
		{"TruncatedMark", "800000", nil, io.ErrUnexpectedEOF},
		{"TruncatedBody", "80000003 6162", nil, io.ErrUnexpectedEOF},
		{"NoLastFragment", "00000003 616263", nil, io.ErrUnexpectedEOF},
		{"SecondRecordTruncated", "80000001 61 8000", []string{"a"}, io.ErrUnexpectedEOF},
		{"AtTheBound", "80000008 6162636465666768", []string{"abcdefgh"}, io.EOF},
		{"OverTheBound", "80000009 616263646566676869", nil, ErrTooLong},
		{"FragmentsOverTheBound", "00000005 6162636465 80000004 66676869", nil, ErrTooLong},
		{"HugeLength", "ffffffff 61", nil, ErrTooLong},
		{"HugeSecondLength", "00000001 61 7fffffff 62", nil, ErrTooLong},
		{"EmptyFragmentsForEver", strings.Repeat("00000000", maxEmptyFragments+1), nil, ErrRecord},
	} {
		in := unhex(t, c.hex)
		for way, src := range map[string]io.Reader{
			"AtOnce":      bytes.NewReader(in),
			"OneByte":     iotest.OneByteReader(bytes.NewReader(in)),
			"HalfReads":   iotest.HalfReader(bytes.NewReader(in)),
			"ErrWithData": iotest.DataErrReader(bytes.NewReader(in)),
		} {
			t.Run(c.name+"/"+way, func(t *testing.T) {
				got, err := records(src, 8)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.want, got)
			})
		}
	}
}

// TestRecordReaderAnyFragments cuts long records at random places.
func TestRecordReaderAnyFragments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	var want []string
	for range 50 {
		rec := make([]byte, rnd.IntN(100_000))
		for i := range rec {
			rec[i] = byte(rnd.Uint32())
		}
		want = append(want, string(rec))
		for {
			n := min(len(rec), rnd.IntN(1+rnd.IntN(40_000)))
			last := n == len(rec) && rnd.IntN(4) > 0
			stream = append(stream, fragment(rec[:n], last)...)
			if rec = rec[n:]; last {
				break
			}
		}
	}
	for way, src := range map[string]io.Reader{
		"AtOnce":  bytes.NewReader(stream),
		"OneByte": iotest.OneByteReader(bytes.NewReader(stream)),
	} {
		got, err := records(src, DefaultMaxRecord)
		require.Equal(t, io.EOF, err, way)
		require.True(t, equalStrings(want, got), way)
	}
}

func equalStrings(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func fragment(b []byte, last bool) []byte {
	mark := uint32(len(b))
	if last {
		mark |= lastFragment
	}
	return append(binary.BigEndian.AppendUint32(nil, mark), b...)
}

// TestRecordReaderReadError: an error of the stream is the reader's, as it is.
func TestRecordReaderReadError(t *testing.T) {
	boom := errors.New("boom")
	_, err := records(io.MultiReader(bytes.NewReader(unhex(t, "80000003 61")), iotest.ErrReader(boom)), 8)
	require.Equal(t, boom, err)
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestRecordReaderAllocation: what a mark promises costs nothing; what comes
// costs at most twice its size and minGrow, held at one time.
func TestRecordReaderAllocation(t *testing.T) {
	t.Run("Promise", func(t *testing.T) {
		in := unhex(t, "83ffffff 00000000")
		got := allocated(func() {
			_, err := records(bytes.NewReader(in), DefaultMaxRecord)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		})
		require.Less(t, got, uint64(1<<20)) // the mark promises 64 MiB; goroutines that end meanwhile allocate too
	})
	t.Run("Halfway", func(t *testing.T) {
		const sent = 4 << 20
		in := append(unhex(t, "83ffffff"), make([]byte, sent)...)
		r := newRecordReader(bytes.NewReader(in), DefaultMaxRecord)
		rec, err := r.next(nil)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Len(t, rec, sent)
		require.LessOrEqual(t, cap(rec), 2*sent+minGrow)
	})
}

func TestRecordReaderReady(t *testing.T) {
	r := newRecordReader(bytes.NewReader(unhex(t, "80000001 61 80000001 62 00000001 63 80000001 64 80000002 65")), 8)
	require.False(t, r.ready())
	for _, want := range []struct {
		rec   string
		ready bool
	}{{"a", true}, {"b", false}, {"cd", false}} {
		rec, err := r.next(nil)
		require.NoError(t, err)
		require.Equal(t, want.rec, string(rec))
		require.Equal(t, want.ready, r.ready(), "after %q", want.rec)
	}
}

// FuzzRecordReader compares the reader with a plain reading of the marks.
func FuzzRecordReader(f *testing.F) {
	for _, seed := range []string{"", "80000003616263", "00000002616280000001638000000161", "ffffffff61", "0000000000000000800000", "80000000"} {
		f.Add(unhex(f, seed), uint16(1))
		f.Add(unhex(f, seed), uint16(4096))
	}
	f.Fuzz(func(t *testing.T, in []byte, chunk uint16) {
		const bound = 1000
		want := plainRecords(in, bound)
		got, err := records(&chunkReader{in, int(chunk)%5000 + 1}, bound)
		require.Error(t, err)
		require.Equal(t, want, got)
	})
}

// plainRecords takes records apart without any regard for memory.
func plainRecords(in []byte, bound int) (all []string) {
	rec, empty := []byte{}, 0
	for len(in) >= 4 {
		mark := binary.BigEndian.Uint32(in)
		n := int(mark &^ lastFragment)
		if n == 0 && mark == 0 {
			empty++
		}
		if in = in[4:]; n > len(in) || len(rec)+n > bound || empty > maxEmptyFragments {
			return all
		}
		rec, in = append(rec, in[:n]...), in[n:]
		if mark&lastFragment != 0 {
			all, rec, empty = append(all, string(rec)), rec[:0], 0
		}
	}
	return all
}

// chunkReader gives at most n bytes at a time.
type chunkReader struct {
	b []byte
	n int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.n)], c.b)
	c.b = c.b[n:]
	return n, nil
}
