package master

import (
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/structs"
)

// alias makes a slave answer under another address, too.
func (w *world) alias(addr, of string) {
	w.fleet.mu.Lock()
	defer w.fleet.mu.Unlock()
	w.slaves[addr] = w.slaves[of]
}

func (w *world) joins(addr string) {
	w.t.Helper()
	r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: structs.MachineName(addr), Protocol: 2, Instance: w.slaves[addr].instance})
	require.NoError(w.t, err)
	require.Equal(w.t, structs.QUERY_OK, r.Status)
}

// TestSlaveUnderTwoAddresses: it serves under the one where its vectors are, which
// are all still there, in whatever order the master hears of them.
func TestSlaveUnderTwoAddresses(t *testing.T) {
	for _, second := range []string{"a-name", "10.0.0.0"} { // behind and before it in the order
		t.Run(second, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Replicas = 1 }, three[:1]...)
			all := w.fill(20)
			w.alias(second, three[0])
			w.joins(second)
			w.state(catalog.Down, second)
			w.serving(three[0])
			require.Equal(t, all, w.rows("R:*"))
			st := w.m.status()
			i := 0
			if string(st.Slaves[0].Addr) != second {
				i = 1
			}
			require.Contains(t, st.Slaves[i].Problem, "one slave")
			require.Contains(t, st.Slaves[i].Problem, "--addr "+three[0])

			// Started anew, with the other address only.
			w.slaves[three[0]].stop()
			w.state(catalog.Down, three[0])
			w.slaves[three[0]].start()
			w.joins(second)
			w.serving(three[0])
			w.state(catalog.Down, second)
			require.Equal(t, all, w.rows("R:*"))
			w.put(99, nil, 99)

			// Another process at the old address, of which no join tells.
			w.slaves[three[0]].mu.Lock()
			w.slaves[three[0]].instance = instances.Add(1)
			w.slaves[three[0]].mu.Unlock()
			w.joins(second)
			w.state(catalog.Down, second)
			w.serving(three[0])
			require.Equal(t, append(all, 99), w.rows("R:*"))
		})
	}
}

// TestDataOfAnotherSlave: whoever has it by mistake does not lose it.
func TestDataOfAnotherSlave(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Replicas = 1 }, three[:2]...)
	for id := range uint64(20) {
		w.put(id, three[:1], uint32(id))
	}
	a, b := w.slaves[three[0]], w.slaves[three[1]]
	a.stop()
	b.stop()
	w.state(catalog.Down, three[:2]...)
	a.mu.Lock()
	data := a.store
	a.store = map[uint64]stored{}
	a.mu.Unlock()
	b.mu.Lock()
	b.store = data
	b.mu.Unlock()
	b.start()
	w.serving(three[1])
	require.EqualValues(t, 20, w.m.status().Slaves[1].SetAside)
	w.fails("R:*", structs.QUERY_UNAVAILABLE)
	b.stop()
	w.state(catalog.Down, three[1])
	a.mu.Lock()
	a.store = data
	a.mu.Unlock()
	b.mu.Lock()
	b.store = map[uint64]stored{}
	b.mu.Unlock()
	a.start()
	b.start()
	w.serving(three[:2]...)
	require.Len(t, w.rows("R:*"), 20)
}
