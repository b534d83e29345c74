package fold_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"starfish/vector"
	"starfish/vector/fold"
)

// seeds are good streams of every kind, from C as well, and such with order or
// count wrong where the structure is right.
func seeds(t testing.TB) (all [][]byte) {
	names, err := filepath.Glob("../testdata/*.hex")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		data, err := hex.DecodeString(strings.TrimSpace(string(text)))
		require.NoError(t, err, name)
		all = append(all, data)
	}
	few := vector.New(1, 2, 3, 70000, 1<<32-1).AppendRoaring(nil)
	dense, runs := vector.New(), vector.New(5)
	for i := range uint32(5000) {
		dense.Add(i*3, 1<<31+i*5)
	}
	for i := range uint32(40) {
		runs.AddRange(i*700, i*700+uint32(i)*9)
	}
	runs.AddRange(1<<16, 1<<18)
	runs.Optimize()
	wrong := dense.AppendRoaring(nil)
	copy(wrong[len(wrong)-8000:], few)
	unsorted := vector.New(9, 200, 300, 400, 500, 600, 700, 800, 900, 901, 902, 903).AppendRoaring(nil)
	copy(unsorted[len(unsorted)-4:], []byte{9, 0, 9, 0})
	return append(all, few, dense.AppendRoaring(nil), runs.AppendRoaring(nil), wrong, unsorted)
}

// exact is data with nothing behind it that could be read or written unseen.
func exact(data []byte) []byte { return bytes.Clone(data)[:len(data):len(data)] }

// FuzzParse: what the checking reader takes, Parse takes, and what Parse takes
// can be looked at.
func FuzzParse(f *testing.F) {
	for _, data := range seeds(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<17 {
			return
		}
		data = exact(data)
		v, err := fold.Parse(data)
		set, strict := vector.ReadRoaring(data)
		if err != nil {
			require.ErrorIs(t, err, fold.ErrBytes)
			require.Error(t, strict, "refused: %v", err)
			return
		}
		if strict == nil {
			require.Equal(t, set.Count(), v.Rows())
		}
		size := 0
		for i := range v.Len() {
			c := v.At(i)
			size += len(c.Data)
			found, ok := v.Find(c.Key)
			require.True(t, ok)
			require.Equal(t, c, found)
			if _, ok := v.Find(c.Key + 1); ok && c.Key < fold.Keys-1 {
				require.Equal(t, c.Key+1, v.At(i+1).Key)
			}
		}
		require.LessOrEqual(t, size, len(data))
	})
}

// FuzzFold: two vectors of anybody's. Where the checking reader takes both the
// results are those of package vector; else they are some valid sets.
func FuzzFold(f *testing.F) {
	all := seeds(f)
	for i := range all {
		f.Add(all[i], all[(i+1)%len(all)])
		f.Add(all[i], all[len(all)-3])
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a) > 1<<17 || len(b) > 1<<17 {
			return
		}
		a, b = exact(a), exact(b)
		before := [][]byte{bytes.Clone(a), bytes.Clone(b)}
		v, err := fold.Parse(a)
		w, err2 := fold.Parse(b)
		if err != nil || err2 != nil {
			return
		}
		x, err := vector.ReadRoaring(a)
		y, err2 := vector.ReadRoaring(b)
		good := err == nil && err2 == nil
		or, and := x, x
		if good {
			or, and = x.Clone(), x.Clone()
			or.Or(y)
			and.And(y)
		}
		for i, tt := range []struct {
			ranges [][]fold.View
			want   *vector.Bitmap
		}{
			{[][]fold.View{{v}}, x},
			{[][]fold.View{{v, w}}, or},
			{[][]fold.View{{v, w, v}}, or},
			{[][]fold.View{{v}, {w}}, and},
			{[][]fold.View{{v}, {v}}, x},
			{[][]fold.View{{v, w}, {w}}, y},
			{[][]fold.View{{v, w, w, w, w, w}, {v}, {w, v}}, x},
			{[][]fold.View{{v}, {w, w}, {w, v}}, and},
		} {
			g := fold.NewGather(len(tt.ranges))
			for rng, all := range tt.ranges {
				for _, v := range all {
					g.Add(rng, v)
				}
			}
			if got := asked(t, g); good {
				require.True(t, tt.want.Equal(got), "case %d", i)
			}
		}
		require.Equal(t, before, [][]byte{a, b}, "the vectors' bytes were written to")
	})
}

// asked is the set that g has, in every way.
func asked(t *testing.T, g *fold.Gather) *vector.Bitmap {
	_, err := g.Count(t.Context(), 0, fold.Keys)
	require.NoError(t, err)
	_, _, err = g.Word(t.Context())
	require.NoError(t, err)
	data, err := g.Append(t.Context(), nil, 0, fold.Keys)
	require.NoError(t, err)
	got, err := vector.ReadRoaring(data)
	require.NoError(t, err)

	// What a leg answers is what another one can be given.
	back := fold.NewGather(g.Ranges())
	for at := 0; at < fold.Keys; {
		frame, next, err := g.Leg(t.Context(), nil, at, fold.Keys, 10_000)
		require.NoError(t, err)
		f, err := fold.ParseFrame(frame, g.Ranges(), at, next)
		require.NoError(t, err)
		back.AddFrame(f)
		at = next
	}
	again, err := back.Append(t.Context(), nil, 0, fold.Keys)
	require.NoError(t, err)
	_, err = vector.ReadRoaring(again)
	require.NoError(t, err)
	return got
}

// FuzzFrame: what ParseFrame takes can be folded, and gives a valid set.
func FuzzFrame(f *testing.F) {
	all := seeds(f)
	for i := range all {
		g := fold.NewGather(2)
		for j := range 2 {
			v, err := fold.Parse(all[(i+j)%len(all)])
			require.NoError(f, err)
			g.Add(j, v)
		}
		frame, _, err := g.Leg(f.Context(), nil, 0, fold.Keys, fold.LegBytes)
		require.NoError(f, err)
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<17 {
			return
		}
		data = exact(data)
		before := bytes.Clone(data)
		frame, err := fold.ParseFrame(data, 2, 0, 1<<12)
		if err != nil {
			require.ErrorIs(t, err, fold.ErrBytes)
			return
		}
		g := fold.NewGather(2)
		g.AddFrame(frame)
		asked(t, g)
		require.Equal(t, before, data, "the frame's bytes were written to")
	})
}
