// Package master is the front door of a cluster: it answers MASTER_PROG. What comes
// in becomes domain types here, what goes out becomes messages again, and the three
// rooms behind it are wired to each other: master/delegate runs queries,
// master/replica changes vectors, master/health knows who serves.
//
// Reading the source: master.go wires and runs it; v1.go and v2.go are the two
// versions of the program, query.go and status.go their messages; join.go,
// handler.go, compare.go and remove.go take slaves and C handlers in and out.
package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"

	"starfish/catalog"
	"starfish/catalog/local"
	"starfish/master/delegate"
	"starfish/master/health"
	"starfish/master/replica"
	"starfish/node"
	"starfish/peer"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// Master answers MASTER_PROG for one cluster.
type Master struct {
	cfg  Config
	log  *slog.Logger
	cat  catalog.Catalog
	pool *peer.Pool
	srv  *rpc.Server
	node *node.Node
	may  node.Callers  // who may change the cluster
	turn chan struct{} // held by the one who changes what C handlers hold

	queries *delegate.Delegate
	writes  *replica.Replica
	health  *health.Health

	stop context.CancelFunc // ends all background work
	ctx  context.Context    // of all background work
	bg   sync.WaitGroup
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
	m := &Master{
		cfg:  cfg,
		log:  cfg.Logger,
		cat:  cat,
		pool: peer.New(peer.Config{HopTimeout: cfg.HopTimeout, Logger: cfg.Logger, Dial: cfg.Dial}),
		srv:  rpc.NewServer(rpc.ServerConfig{Logger: cfg.Logger}),
		turn: make(chan struct{}, 1),
		may:  node.NewCallers(cfg.Allow),
	}
	if cfg.wrap != nil {
		m.cat = cfg.wrap(cat)
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.wire()
	m.node = node.New(m.body())
	structs.RegisterMasterProgMasterV1(m.srv, v1{m})
	structs.RegisterMasterProgMasterV2(m.srv, v2{m})
	return m, nil
}

// wire gives each room what it needs of the others and of the cluster. They call
// each other in a circle (a slave that is back wakes the writes that wait for it,
// which wait for verdicts; queries know which writes are open, and writes which
// queries run), so the writes are reached through m: nobody calls a room before all
// are there.
func (m *Master) wire() {
	m.health = health.New(m.ctx, health.Config{
		Views: m.cat, Sightings: m.cat, Slaves: m.pool, Log: m.log,
		Serving:  func() { m.writes.Wake() },
		Stray:    func(ctx context.Context, addr string, it peer.Item) { m.writes.Sweep(ctx, addr, it) },
		Interval: m.cfg.ProbeInterval, Settle: m.cfg.settle, HandlerTimeout: m.handlerPatience(), Patience: DefaultDeadline,
	})
	m.queries = delegate.New(delegate.Config{
		Views: m.cat, Slaves: m.pool, Health: m.health, Inventory: m.health, Log: m.log,
		Deadline: DefaultDeadline, HandlerTimeout: m.cfg.HopTimeout, Policy: m.cfg.policy, Chain: m.cfg.Strategy == "chain", Seed: m.cfg.Seed, Nodes: m.cfg.nodes,
		Writes: openWrites{m},
	})
	m.writes = replica.New(m.ctx, replica.Config{
		Views: m.cat, Intents: m.cat, Slaves: m.pool, Copies: m.pool, Health: m.health, Inventory: m.health, Log: m.log,
		Deadline: DefaultDeadline, Replicas: m.cfg.Replicas, NoOverlap: m.cfg.NoOverlap,
		Queries: m.queries,
	})
}

// openWrites is delegate.Writes, of the replica that is made after the delegate.
type openWrites struct{ m *Master }

func (o openWrites) Stalls() <-chan struct{} { return o.m.writes.Stalls() }

func (o openWrites) Waits(in catalog.Intent, snap *catalog.Snapshot) ([]string, bool) {
	return o.m.writes.Waits(in, snap)
}

// Ready is closed once the master is listening, registered with the portmapper,
// and has looked for every known slave. Queries and writes wait for those that
// may only not have registered again yet.
func (m *Master) Ready() <-chan struct{} { return m.node.Ready() }

// Addr is the first address that the master listens on, nil before Run.
func (m *Master) Addr() net.Addr { return m.node.Addr() }

// Portmapper says which portmapper the host has and what the user should know
// about it; zero before Ready, and where Config.Portmap is not PortmapperAuto.
func (m *Master) Portmapper() portmap.Status { return m.node.Portmapper() }

// Run serves until ctx ends, drains the calls in flight and closes the catalog.
// It returns nil at a clean end.
func (m *Master) Run(ctx context.Context) error {
	if err := m.node.Listen(ctx); err != nil {
		return errors.Join(err, m.Close())
	}
	for _, s := range m.cat.Snapshot().Slaves() {
		m.health.Watch(s.Addr)
	}
	m.writes.Start()
	m.writes.Wake()
	return errors.Join(m.node.Run(ctx), m.Close())
}

// Close ends a Master at once. Run does it by itself.
func (m *Master) Close() error {
	m.stop()
	m.srv.Close()
	m.health.Close()
	m.writes.Close()
	m.bg.Wait()
	m.pool.Close()
	if err := m.cat.Close(); err != nil {
		return fmt.Errorf("master: close the catalog: %w", err)
	}
	return nil
}
