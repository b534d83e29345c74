package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"starfish/catalog"
	"starfish/node"
	"starfish/peer"
	"starfish/portmap"
	"starfish/router"
	"starfish/rpc"
)

// Bounds and defaults of a master.
const (
	DefaultPort     = 20480
	DefaultReplicas = 2
	DefaultDeadline = 20 * time.Second // of a query that names none, and of every write

	DefaultHopTimeout = peer.DefaultHopTimeout

	maxReplicas = 16
	maxRecord   = rpc.DefaultMaxRecord
)

// AnyPort as Config.Port listens on a free port of the system's choice.
const AnyPort = node.AnyPort

// Config is how a master runs. The zero value but for Data is the default.
type Config struct {
	Data     string          // directory of the catalog; must be set
	Listen   []netip.Addr    // addresses to listen on besides 127.0.0.1
	Port     int             // 0: DefaultPort; AnyPort: a free one
	Allow    []netip.Prefix  // who may change something, besides loopback
	Portmap  node.Portmapper // zero: use the host's portmapper, else serve one
	Replicas int             // holders of a vector that the put does not pin; 0: 2

	HopTimeout    time.Duration // how long a slave may stay silent; 0: 1 s
	ProbeInterval time.Duration // between two looks at each slave; 0: HopTimeout
	DrainTimeout  time.Duration // for calls in flight at the end of Run; 0: 5 s

	Coordinator string // "bandwidth" (also ""), "random" or "round-robin"
	Strategy    string // "auto" (also "") or "parallel": a call to each machine; "chain": hop by hop
	Balance     string // "random" (also "")
	NoOverlap   bool   // refuse a second holder of a vector
	Seed        uint64 // replays the master's choices from its start; 0: drawn

	Network node.Network // where the master listens; nil: node.System

	Release string       // shown by MASTER_STATUS
	Logger  *slog.Logger // nil: slog.Default()

	// Dial connects to SLAVE_PROG of a machine; nil: through its portmapper.
	Dial func(ctx context.Context, machine string, vers uint32) (*rpc.Client, error)

	policy router.Policy // Coordinator, read once

	// For tests.
	settle time.Duration                         // after its start, for slaves to register again; 0: two of their rounds
	nodes  int64                                 // see delegate.Config
	wrap   func(catalog.Catalog) catalog.Catalog // nil: the catalog as it is
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Check returns all that is wrong with the configuration, joined.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults fills in the defaults and checks the whole; all faults are joined.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("master: "+format, args...)) }
	if c.Data == "" {
		fault("no data directory: say --data DIR")
	}
	switch {
	case c.Port == 0:
		c.Port = DefaultPort
	case c.Port < AnyPort || c.Port > 65535:
		fault("port %d is not between 1 and 65535", c.Port)
	}
	if c.Replicas == 0 {
		c.Replicas = DefaultReplicas
		if c.NoOverlap {
			c.Replicas = 1
		}
	}
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		fault("replicas %d is not between 1 and %d", c.Replicas, maxReplicas)
	}
	if c.NoOverlap && c.Replicas > 1 {
		fault("replicas %d without overlap: a vector has one holder then, say --replicas 1", c.Replicas)
	}
	c.HopTimeout = orDefault(c.HopTimeout, DefaultHopTimeout)
	c.ProbeInterval = orDefault(c.ProbeInterval, c.HopTimeout)
	c.DrainTimeout = orDefault(c.DrainTimeout, 5*time.Second)
	c.settle = orDefault(c.settle, 2*portmap.DefaultKeepInterval)
	if c.HopTimeout < 0 || c.ProbeInterval < 0 || c.DrainTimeout < 0 {
		fault("a timeout is negative")
	}
	var err error
	if c.policy, err = policy(c.Coordinator); err != nil {
		faults = append(faults, err)
	}
	if c.Strategy != "" && c.Strategy != "auto" && c.Strategy != "parallel" && c.Strategy != "chain" {
		fault("strategy %q is not auto, parallel or chain", c.Strategy)
	}
	if c.Balance != "" && c.Balance != "random" {
		fault("balance %q is not known: random", c.Balance)
	}
	if c.lookup == nil {
		c.lookup = lookup
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(faults...)
}

// handlerPatience is how long a C handler may be silent that is asked whether it
// lives, or what it holds: it is one thread, and answers nothing while it works.
func (m *Master) handlerPatience() time.Duration { return 5 * m.cfg.HopTimeout }

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

func policy(name string) (router.Policy, error) {
	switch name {
	case "", "bandwidth":
		return router.Bandwidth, nil
	case "round-robin":
		return router.RoundRobin, nil
	case "random":
		return router.Random, nil
	}
	return router.Random, fmt.Errorf("master: coordinator %q is not random, round-robin or bandwidth", name)
}
