package master

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/catalog/local"
	"starfish/structs"
)

// TestIntentsAcrossRestart: a master that ended inside a write finds the intent
// and finishes it, undoes it, or waits for who may know.
func TestIntentsAcrossRestart(t *testing.T) {
	type outcome int
	const (
		before outcome = iota
		after
		waits
	)
	for _, tc := range []struct {
		name   string
		known  bool
		op     catalog.Op
		has    []int // of the two holders, who has the write
		away   []int // who is down at the restart
		want   outcome
		atLast outcome // when all are back
	}{
		{"BothHaveIt", true, catalog.Put, []int{0, 1}, nil, after, after},
		{"OneHasIt", true, catalog.Put, []int{1}, nil, after, after},
		{"NobodyHasIt", true, catalog.Put, nil, nil, before, before},
		{"NewBothHaveIt", false, catalog.Put, []int{0, 1}, nil, after, after},
		{"NewOneHasIt", false, catalog.Put, []int{0}, nil, after, after},
		{"NewNobodyHasIt", false, catalog.Put, nil, nil, before, before},
		{"OneHasItOtherAway", true, catalog.Put, []int{0}, []int{1}, after, after},
		{"OneHasNotOtherAway", true, catalog.Put, nil, []int{1}, waits, before},
		{"OneHasNotOtherHasAndIsAway", true, catalog.Put, []int{1}, []int{1}, waits, after},
		{"AllAway", true, catalog.Put, []int{1}, []int{0, 1}, waits, after},
		{"DeleteBothHaveIt", true, catalog.Delete, []int{0, 1}, nil, after, after},
		{"DeleteOneHasIt", true, catalog.Delete, []int{1}, nil, after, after},
		{"DeleteNobodyHasIt", true, catalog.Delete, nil, nil, before, before},
		{"DeleteOneHasNotOtherAway", true, catalog.Delete, nil, []int{1}, waits, before},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil, three[:2]...)
			w.put(1, nil, 1) // another vector, untouched
			if tc.known {
				w.put(7, nil, 10)
			}
			w.end()
			cat, err := local.Open(filepath.Join(w.cfg.Data, "catalog.db"), local.Config{})
			require.NoError(t, err)
			in, err := cat.Begin(w.ctx(), catalog.Intent{ID: 7, Op: tc.op, Holders: three[:2], Bytes: 10})
			require.NoError(t, err)
			require.NoError(t, cat.Close())
			for _, i := range tc.has {
				s := w.slaves[three[i]]
				if tc.op == catalog.Delete {
					s.write(7, stored{revision: in.Revision, deleted: true})
				} else {
					s.set(7, in.Revision, 20)
				}
			}
			for _, i := range tc.away {
				w.slaves[three[i]].stop()
			}
			w.run()
			check := func(want outcome) {
				t.Helper()
				gone := want == before && !tc.known || want == after && tc.op == catalog.Delete
				for range 4 {
					switch {
					case want == waits:
						f := w.failsIn("P:7", structs.QUERY_UNAVAILABLE, testHop)
						require.Equal(t, []uint64{7}, f.Vectors)
					case gone:
						w.fails("P:7", structs.QUERY_NO_SUCH_VECTOR)
					case want == before:
						require.Equal(t, []uint32{10}, w.rows("P:7"))
					default:
						require.Equal(t, []uint32{20}, w.rows("P:7"))
					}
				}
			}
			check(tc.want)
			for _, i := range tc.away {
				w.slaves[three[i]].start()
			}
			w.serving(three[:2]...)
			w.finished()
			check(tc.atLast)
			require.Equal(t, []uint32{1}, w.rows("P:1"))
			a, b := w.slaves[three[0]].get(7), w.slaves[three[1]].get(7)
			require.Equal(t, a.revision, b.revision)
			require.Equal(t, a.deleted, b.deleted)
			w.put(7, nil, 30)
			require.Equal(t, []uint32{30}, w.rows("P:7"))
		})
	}
}

// TestRestartRemembers: after a restart with a holder missing its vectors are
// unavailable, not forgotten.
func TestRestartRemembers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Replicas = 1 }, three...)
	all := w.fill(30)
	gone := w.slaves[three[1]]
	lost := map[uint64]bool{}
	for id := range gone.store {
		lost[id] = true
	}
	require.NotEmpty(t, lost)
	gone.stop()
	w.restart()
	require.EqualValues(t, 30, w.m.status().Vectors)
	require.EqualValues(t, len(lost), w.m.status().Unavailable)
	for id := range uint64(30) {
		text := fmt.Sprint("P:", id)
		if !lost[id] {
			require.Equal(t, []uint32{uint32(id)}, w.rows(text))
			continue
		}
		f := w.fails(text, structs.QUERY_UNAVAILABLE)
		require.Equal(t, []uint64{id}, f.Vectors)
		require.Equal(t, []structs.MachineName{structs.MachineName(three[1])}, f.FailedMachines)
	}
	f := w.fails("R:*", structs.QUERY_UNAVAILABLE)
	require.Len(t, f.Vectors, len(lost))
	gone.start()
	w.serving(three...)
	require.Equal(t, all, w.rows("R:*"))
}
