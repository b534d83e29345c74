// Package master is the front door of a cluster: it answers MASTER_PROG. It
// parses a query, has the router choose a holder for each vector, delegates the
// plan to a slave, and runs again on other holders what failed. It takes puts and
// deletes to all holders of a vector, watches the slaves and keeps the catalog.
//
// Reading the source: query.go is a query's way, plan.go runs its plan, judge.go
// and absent.go look at what came back; put.go is a write's way; monitor.go and
// inventory.go decide which slaves serve; finish.go ends writes that a failure left
// open; v1.go and v2.go are the two versions of the program.
package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"starfish/catalog"
	"starfish/catalog/local"
	"starfish/peer"
	"starfish/portmap"
	"starfish/router"
	"starfish/rpc"
	"starfish/structs"
)

// Master answers MASTER_PROG for one cluster.
type Master struct {
	cfg    Config
	log    *slog.Logger
	cat    catalog.Catalog
	pool   *peer.Pool
	srv    *rpc.Server
	mon    *monitor
	fin    *finisher
	draw   *seeds
	budget budget // of the plans in flight
	reads  reads
	ids    idLocks
	turn   chan struct{} // held by the one who changes what C handlers hold

	policy router.Policy // of coordinators
	turns  atomic.Uint64 // counts queries

	stop  context.CancelFunc // ends all background work
	ctx   context.Context    // of all background work
	bg    sync.WaitGroup
	slots chan struct{} // bounds background
	ready chan struct{}

	mu     sync.Mutex
	addr   net.Addr       // the first that is listened on; nil before Run
	mapper portmap.Status // the host's portmapper
}

// New checks the configuration and opens the catalog; Run serves it. A Master
// that was never run is ended with Close.
func New(cfg Config) (*Master, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cat, err := local.Open(filepath.Join(cfg.Data, "catalog.db"), local.Config{})
	if err != nil {
		return nil, fmt.Errorf("master: open the catalog: %w", err)
	}
	policy, _ := policy(cfg.Coordinator) // checked
	m := &Master{
		policy: policy,
		cfg:    cfg,
		log:    cfg.Logger,
		cat:    cat,
		pool:   peer.New(peer.Config{HopTimeout: cfg.HopTimeout, Logger: cfg.Logger, Dial: cfg.Dial}),
		srv:    rpc.NewServer(rpc.ServerConfig{Logger: cfg.Logger}),
		draw:   newSeeds(cfg.Seed),
		budget: newBudget(),
		turn:   make(chan struct{}, 1),
		slots:  make(chan struct{}, backgroundJobs),
		ready:  make(chan struct{}),
	}
	if cfg.wrap != nil {
		m.cat = cfg.wrap(cat)
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.mon = newMonitor(m.ctx, m)
	m.fin = &finisher{m: m, kick: make(chan struct{}, 1)}
	structs.RegisterMasterProgMasterV1(m.srv, v1{m})
	structs.RegisterMasterProgMasterV2(m.srv, v2{m})
	return m, nil
}

const backgroundJobs = 16

// background runs f once after is closed, or DefaultDeadline has passed, at most
// backgroundJobs at a time, until the master ends.
func (m *Master) background(after <-chan struct{}, f func(ctx context.Context)) {
	m.bg.Go(func() {
		late := time.NewTimer(DefaultDeadline)
		defer late.Stop()
		select {
		case <-after:
		case <-late.C:
		case <-m.ctx.Done():
			return
		}
		select {
		case m.slots <- struct{}{}:
			defer func() { <-m.slots }()
			f(m.ctx)
		case <-m.ctx.Done():
		}
	})
}

// Ready is closed once the master is listening, registered with the portmapper,
// and has looked for every known slave. Queries and writes wait for those that
// may only not have registered again yet.
func (m *Master) Ready() <-chan struct{} { return m.ready }

// Addr is the first address that the master listens on, nil before Run.
func (m *Master) Addr() net.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addr
}

// Portmapper says which portmapper the host has and what the user should know
// about it; zero before Ready, and with Config.Portmap "off".
func (m *Master) Portmapper() portmap.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mapper
}

// Run serves until ctx ends, drains the calls in flight and closes the catalog.
// It returns nil at a clean end.
func (m *Master) Run(ctx context.Context) error {
	socks, err := listen(ctx, m.cfg.Listen, m.cfg.Port)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	m.mu.Lock()
	m.addr = socks.tcp[0].Addr()
	m.mu.Unlock()

	for _, s := range m.cat.Snapshot().Slaves() {
		m.mon.watch(s.Addr)
	}
	m.fin.start(m.ctx)
	m.fin.wake()

	failed := make(chan error, len(socks.tcp)+len(socks.udp))
	var serving sync.WaitGroup
	for _, l := range socks.tcp {
		serving.Go(func() { failed <- m.srv.Serve(l) })
	}
	for _, c := range socks.udp {
		serving.Go(func() { failed <- m.srv.ServePacket(c) })
	}
	door := m.register(ctx, socks)
	m.bg.Go(func() { m.announce(door) })

	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("master: serve: %w", err)
	}
	door.leave()
	drain, cancel := context.WithTimeout(context.Background(), m.cfg.DrainTimeout)
	defer cancel()
	if m.srv.Shutdown(drain) != nil {
		m.log.Warn("calls in flight were cut off at shutdown")
		m.srv.Close()
	}
	serving.Wait()
	door.close()
	return errors.Join(err, m.Close())
}

// announce closes Ready when all is up.
func (m *Master) announce(door *door) {
	select {
	case <-door.ready():
	case <-m.ctx.Done():
		return
	}
	if m.mon.lookAround(m.ctx); m.ctx.Err() == nil {
		close(m.ready)
	}
}

// finish makes an open write the state of its id, which is locked.
func (m *Master) finish(ctx context.Context, in catalog.Intent) error {
	err := m.cat.Finish(ctx, in.ID, in.Revision)
	if err == nil && in.Op == catalog.Delete {
		m.reads.erased(in.Revision)
	}
	return err
}

// Close ends a Master at once. Run does it by itself.
func (m *Master) Close() error {
	m.stop()
	m.srv.Close()
	m.mon.close()
	m.fin.wg.Wait()
	m.bg.Wait()
	m.pool.Close()
	if err := m.cat.Close(); err != nil {
		return fmt.Errorf("master: close the catalog: %w", err)
	}
	return nil
}
