package master

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// TestSlavesComeAfterTheMaster: the portmapper was restarted with the master, and does
// not know the slaves yet; or the slaves were, too, and one that is not up yet has a
// sibling whose port is known. Who asks meanwhile waits and gets an answer.
func TestSlavesComeAfterTheMaster(t *testing.T) {
	t.Run("not registered", func(t *testing.T) {
		comeAfterTheMaster(t, &portmap.NotRegisteredError{Prog: structs.SLAVE_PROG, Vers: 1, Addr: "10.0.0.1"}, "not registered")
	})
	t.Run("refused", func(t *testing.T) {
		comeAfterTheMaster(t, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused")
	})
}

// TestSlaveThatServedIsNotAwaited: who has served this master and is gone is down at
// once, however short ago the master began: nobody waits for it, and status says so.
func TestSlaveThatServedIsNotAwaited(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.settle = time.Hour }, three...)
	w.put(1, three[:1], 5)
	w.slaves[three[0]].stop()
	w.m.health.Blame(three[0], "a call of a query failed") // whether it serves is to be found out anew
	<-w.m.health.Visit(three[0])
	st := w.m.status().Slaves[0]
	require.Equal(t, structs.SLAVE_DOWN, st.State)
	require.Equal(t, "connection refused", st.Problem)
	require.Contains(t, w.fails("P:1", structs.QUERY_UNAVAILABLE).Message, three[0])

	w.slaves[three[0]].start()
	w.serving(three[0])
	require.Equal(t, []uint32{5}, w.rows("P:1"))
}

func comeAfterTheMaster(t *testing.T, away error, problem string) {
	w := newWorld(t, nil, three...)
	w.put(1, three[:2], 1, 5)
	w.put(2, three[2:], 5)
	var unknown atomic.Bool
	unknown.Store(true)
	asked := make(chan struct{}, 1000)
	w.cfg.Dial = func(ctx context.Context, machine string, vers uint32) (*rpc.Client, error) {
		if unknown.Load() {
			asked <- struct{}{}
			return nil, away
		}
		return w.dial(ctx, machine, vers)
	}
	w.cfg.settle = time.Hour
	w.slaves[three[1]].setRefuse(func(op string, id uint64) error {
		if op == "store" && id == 9 {
			return errors.New("disk full")
		}
		return nil
	})
	require.Equal(t, structs.QUERY_UNAVAILABLE, w.tryPut(9, three[:2], 1).Status)
	w.slaves[three[1]].setRefuse(nil)
	w.restart() // ready without them
	w.state(catalog.Joining, three...)
	got := make(chan structs.QueryResponse, 2)
	for _, text := range []structs.QueryText{"P:1", "R:1&2"} {
		go func() {
			r, err := w.client.MasterQuery(w.ctx(), structs.QueryRequest{Text: text, Format: structs.BITMAP_NONE})
			require.NoError(t, err)
			got <- r
		}()
	}
	open := make(chan structs.PutResponse, 1)
	go func() { open <- w.tryPut(9, three[:2], 2) }() // of a vector whose last write is not finished
	for range 10 {
		<-asked
	}
	select {
	case r := <-got:
		require.Fail(t, "answered before a slave was found", "%+v", r)
	default:
	}
	unknown.Store(false)
	for range 2 {
		r := <-got
		require.Equal(t, structs.QUERY_OK, r.Status, r.Failure.Message)
	}
	require.Equal(t, structs.QUERY_OK, (<-open).Status)
	require.Equal(t, []uint32{2}, w.rows("P:9"))

	// Whoever has not registered after that time is down.
	unknown.Store(true)
	w.cfg.settle = 1
	w.restart()
	w.state(catalog.Down, three...)
	f := w.fails("P:1", structs.QUERY_UNAVAILABLE)
	require.Contains(t, f.Message, problem)
}
