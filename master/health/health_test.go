package health

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/peer"
)

// host is a cluster of one slave, which answers probes as it is told.
type host struct {
	catalog.Catalog
	probe    func() error
	page     peer.Page
	setState func() // before a state is noted
	served   atomic.Int64
}

func (h *host) Probe(context.Context, string) error { return h.probe() }

func (h *host) Null(context.Context, string, uint32, time.Duration) error { return h.probe() }

func (h *host) Inventory(context.Context, string, uint64, uint32) (peer.Page, error) {
	return h.page, nil
}

func (h *host) SetState(addr string, st catalog.State, problem string) {
	if h.setState != nil {
		h.setState()
	}
	h.Catalog.SetState(addr, st, problem)
}

func (h *host) state() catalog.State {
	s, _ := h.Snapshot().Slave("a")
	return s.State
}

// watching runs f beside the watching of one slave that serves.
func watching(t *testing.T, f func(t *testing.T, h *host, health *Health)) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{Catalog: catalog.Over(catalog.NewMemory()), probe: func() error { return nil }, page: peer.Page{Instance: 1}}
		require.NoError(t, h.AddSlave(t.Context(), catalog.Slave{Addr: "a", Protocol: 2}, nil))
		ctx, cancel := context.WithCancel(context.Background())
		health := New(ctx, Config{Views: h, Sightings: h, Slaves: h, Serving: func() { h.served.Add(1) },
			Stray: func(context.Context, string, peer.Item) {}, Log: slog.New(slog.DiscardHandler), Interval: time.Minute, Patience: time.Minute})
		health.Watch("a")
		require.NoError(t, health.AwaitVerdict(t.Context(), "a"))
		require.Equal(t, catalog.Serving, h.state())
		require.EqualValues(t, 1, h.served.Load(), "who waits for it is woken")
		f(t, h, health)
		cancel()
		health.Close()
		h.Close()
	})
}

// TestBlameBesideAVisit: a visit that began before the blame proves nothing, however
// late it ends; the one that the blame asked for decides.
func TestBlameBesideAVisit(t *testing.T) {
	watching(t, func(t *testing.T, h *host, health *Health) {
		entered, release := make(chan struct{}, 2), make(chan struct{})
		h.probe = func() error { entered <- struct{}{}; <-release; return nil }
		health.Visit("a")
		<-entered
		health.Blame("a", "a call was lost")
		require.Equal(t, catalog.Down, h.state(), "the catalog says so when Blame returns")
		doubt := health.Doubt("a")
		require.NotNil(t, doubt)
		release <- struct{}{} // the visit of before ends well
		<-entered
		require.Equal(t, catalog.Down, h.state())
		require.NotNil(t, health.Doubt("a"))
		release <- struct{}{}
		<-doubt
		require.Equal(t, catalog.Serving, h.state(), "the catalog knows before those who wait")
		require.Nil(t, health.Doubt("a"))
	})
}

// TestNoLockOverTheCatalog: while the catalog takes its time over a verdict, others
// ask, write and blame; and the blame is what stands.
func TestNoLockOverTheCatalog(t *testing.T) {
	watching(t, func(t *testing.T, h *host, health *Health) {
		entered, release := make(chan struct{}), make(chan struct{})
		var first atomic.Bool
		h.setState = func() {
			if !first.Swap(true) {
				close(entered)
				<-release
			}
		}
		var visits atomic.Int64
		again := make(chan struct{})
		h.probe = func() error {
			if visits.Add(1) > 1 {
				<-again
			}
			return errors.New("no answer")
		}
		health.Visit("a")
		<-entered
		health.Touch("a", 1)
		health.Secret("a")
		health.Verdicts([]string{"a"})
		blamed := make(chan struct{})
		go func() { defer close(blamed); health.Blame("a", "a call was lost") }()
		synctest.Wait()
		require.NotNil(t, health.Doubt("a"), "it is in doubt at once")
		close(release)
		<-blamed
		synctest.Wait()
		require.NotNil(t, health.Doubt("a"), "the verdict of before does not end it")
		close(again)
		require.NoError(t, health.AwaitVerdict(t.Context(), "a"))
		require.Equal(t, catalog.Down, h.state())
	})
}

// TestAnotherProcess: a new process at an address is compared before it serves.
func TestAnotherProcess(t *testing.T) {
	watching(t, func(t *testing.T, h *host, health *Health) {
		h.page = peer.Page{Instance: 2, Items: []peer.Item{{ID: 4, Revision: 1}}}
		health.Joined("a", Joined{Instance: 2, Secret: peer.Secret{9}, Problem: "disk full"})
		require.NoError(t, health.AwaitVerdict(t.Context(), "a"))
		s, _ := h.Snapshot().Slave("a")
		require.Equal(t, catalog.Serving, s.State)
		require.Equal(t, "disk full", s.Problem)
		require.EqualValues(t, 1, s.SetAside)
		secret, learned := health.Secret("a")
		require.Equal(t, peer.Secret{9}, secret)
		health.Joined("a", Joined{Instance: 2, Secret: peer.Secret{8}})
		<-learned
		s, _ = h.Snapshot().Slave("a")
		require.Empty(t, s.Problem)
		health.Unwatch("a")
		health.Blame("a", "gone")
		require.False(t, health.Watched("a"))
	})
}
