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
	"sync"

	"starfish/peer"
	"starfish/portmap"
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
	ready    chan struct{}

	computing    chan struct{} // a slot for each call that computes
	coordinating chan struct{} // a slot for each call that coordinates

	fault storeFault

	mu    sync.Mutex
	socks *sockets // set before the first call is served
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
		ready:    make(chan struct{}),

		computing:    newComputing(),
		coordinating: make(chan struct{}, maxCoordinated),
	}
	s.engine = engine.New(vectors, s.compute)
	s.cluster = newCluster(cfg, s.instance)
	s.cluster.problem = s.problem
	structs.RegisterSlaveProgSlaveV1(s.srv, v1{s})
	structs.RegisterSlaveProgSlaveV2(s.srv, v2{s})
	return s, nil
}

// Ready is closed once the slave is listening and has registered with the
// portmapper and joined the master, or has tried that for a few seconds: it
// goes on trying, and the log says what is missing.
func (s *Slave) Ready() <-chan struct{} { return s.ready }

// Addr is the first address that the slave listens on, nil before Run.
func (s *Slave) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.socks == nil {
		return nil
	}
	return s.socks.tcp[0].Addr()
}

// Run serves until ctx ends, drains the calls in flight and closes the store. It
// returns nil at a clean end.
func (s *Slave) Run(ctx context.Context) error {
	socks, err := listen(ctx, s.cfg.Addr, s.cfg.Listen, s.cfg.Port)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if !s.cfg.NoPortmap {
		if err := checkSiblings(ctx, registrations(socks)); err != nil {
			socks.close()
			return errors.Join(err, s.Close())
		}
	}
	s.mu.Lock()
	s.socks = socks
	s.mu.Unlock()

	failed := make(chan error, len(socks.tcp)+len(socks.udp))
	var serving, background sync.WaitGroup
	for _, l := range socks.tcp {
		serving.Go(func() { failed <- s.srv.Serve(l) })
	}
	for _, c := range socks.udp {
		serving.Go(func() { failed <- s.srv.ServePacket(c) })
	}
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	registered := s.register(bg, &background, socks)
	background.Go(func() { s.cluster.run(bg) })
	background.Go(func() { s.announce(bg, registered) })

	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("slave: serve: %w", err)
	}
	drain, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	if s.srv.Shutdown(drain) != nil {
		s.log.Warn("calls in flight were cut off at shutdown")
		s.srv.Close()
	}
	serving.Wait()
	stop() // only now: who unsets asks whether the port is still served
	background.Wait()
	return errors.Join(err, s.Close())
}

// Close closes what New opened; Run does it at its end.
func (s *Slave) Close() error {
	s.pool.Close()
	if err := s.store.Close(); err != nil {
		return fmt.Errorf("slave: %w", err)
	}
	return nil
}

// register keeps the program registered with the host's portmapper.
func (s *Slave) register(ctx context.Context, wg *sync.WaitGroup, socks *sockets) (registered <-chan struct{}) {
	if s.cfg.NoPortmap {
		done := make(chan struct{})
		close(done)
		return done
	}
	keeper := portmap.NewKeeper(portmap.KeeperConfig{
		Registrations:  registrations(socks),
		SiblingAnswers: portmap.Answers, // our own sockets are closed then
		Logger:         s.log,
	})
	wg.Go(func() { keeper.Run(ctx) })
	return keeper.Ready()
}

// announce closes Ready.
func (s *Slave) announce(ctx context.Context, registered <-chan struct{}) {
	patience, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	select {
	case <-registered:
	case <-patience.Done():
		if ctx.Err() == nil {
			s.log.Warn("no portmapper of this host has the slave's port, so that nobody finds it: run a master, bin/portmap or rpcbind here; trying again")
		}
	}
	select {
	case <-s.cluster.tried:
	case <-patience.Done():
	}
	if ctx.Err() == nil {
		close(s.ready)
	}
}
