// Package slave is one machine that holds vectors: it answers SLAVE_PROG in both
// versions, as handler (OR its own vectors into a result, hand the rest of the
// list to the next machine) and as coordinator (run the ranges of a query, AND
// their results).
//
// Reading the source: legs.go takes a list apart, chain.go runs one range,
// coordinate.go several; v1.go and v2.go are the two versions of the program;
// target.go decides which machines are called, cluster.go joins the master.
package slave

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"

	"starfish/node"
	"starfish/peer"
	"starfish/rpc"
	"starfish/slave/engine"
	"starfish/store"
	"starfish/structs"
)

// Slave serves one store of vectors.
type Slave struct {
	cfg      Config
	log      *slog.Logger
	store    *store.Store
	engine   *engine.Engine
	pool     *peer.Pool
	srv      *rpc.Server
	cluster  *cluster
	names    *names
	instance uint64 // drawn anew for each start
	node     *node.Node
	may      node.Callers // who may change vectors, besides the master

	computing    chan struct{} // a slot for each call that computes
	coordinating chan struct{} // a slot for each call that coordinates

	fault storeFault
}

// New checks the configuration and opens the store; Run serves it. A Slave that
// was never run is ended with Close.
func New(cfg Config) (*Slave, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Logger = cfg.Logger.With("slave", cfg.Addr)
	vectors, err := store.Open(filepath.Join(cfg.Data, "vectors.db"), store.Config{Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("slave: open the store: %w", err)
	}
	s := &Slave{
		cfg: cfg, log: cfg.Logger, store: vectors,
		pool:     peer.New(peer.Config{HopTimeout: cfg.HopTimeout, Logger: cfg.Logger, Dial: cfg.Dial}),
		srv:      rpc.NewServer(rpc.ServerConfig{Logger: cfg.Logger}),
		names:    newNames(),
		instance: rand.Uint64() | 1, // 0 stands for an unknown one
		may:      node.NewCallers(cfg.Allow),

		computing:    newComputing(),
		coordinating: make(chan struct{}, maxCoordinated),
	}
	s.engine = engine.New(vectors, s.compute)
	s.cluster = newCluster(cfg, s.instance)
	s.cluster.problem = s.problem
	s.node = node.New(s.body())
	structs.RegisterSlaveProgSlaveV1(s.srv, v1{s})
	structs.RegisterSlaveProgSlaveV2(s.srv, v2{s})
	return s, nil
}

// Ready is closed once the slave is listening and has registered with the
// portmapper and joined the master, or has tried that for a few seconds: it
// goes on trying, and the log says what is missing.
func (s *Slave) Ready() <-chan struct{} { return s.node.Ready() }

// Addr is the first address that the slave listens on, nil before Run.
func (s *Slave) Addr() net.Addr { return s.node.Addr() }

// Run serves until ctx ends, drains the calls in flight and closes the store. It
// returns nil at a clean end.
func (s *Slave) Run(ctx context.Context) error {
	own, err := lookup(ctx, s.cfg.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("slave: the slave's own address: %w", err), s.Close())
	}
	if err := s.node.Listen(ctx, own...); err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(s.node.Run(ctx, s.cluster.run), s.Close())
}

// Close closes what New opened; Run does it at its end.
func (s *Slave) Close() error {
	s.pool.Close()
	if err := s.store.Close(); err != nil {
		return fmt.Errorf("slave: %w", err)
	}
	return nil
}
