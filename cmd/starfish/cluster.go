package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"starfish/client"
	"starfish/master"
	"starfish/node"
	"starfish/peer"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/slave"
	"starfish/structs"
)

// Bounds of starting and ending.
const (
	startTimeout = 60 * time.Second
	pollInterval = 50 * time.Millisecond
	endTimeout   = 10 * time.Second
)

// cluster is a running up.
type cluster struct {
	up     *up
	data   string
	failed chan error // a part that ended by itself

	mapper portmap.Status
	lo     loAddrs
	loHint string // what the user should do about lo, "" for nothing

	stops []func() error // of the parts, in the order of their start
}

// part is a master or a slave.
type part interface {
	Run(context.Context) error
	Ready() <-chan struct{}
}

// start starts all parts and waits until each answers, or ctx ends.
func (c *cluster) start(ctx context.Context) error {
	c.failed = make(chan error, 1+len(c.up.slaves))
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	cfg := c.up.master
	cfg.Data = filepath.Join(c.data, "master")
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return err
	}
	m, err := master.New(cfg)
	if err != nil {
		return err
	}
	c.run("master", m)
	if err := c.await(ctx, "master", m); err != nil || ctx.Err() != nil {
		return err
	}
	if err := c.findMapper(ctx, m); err != nil {
		return err
	}
	if c.mapper.Port == portmap.DefaultPort && !c.mapper.Own {
		c.fixLo(ctx)
	}
	if err := c.startSlaves(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return c.answers(ctx)
}

func (c *cluster) startSlaves(ctx context.Context) error {
	parts := make([]part, len(c.up.slaves))
	for i, spec := range c.up.slaves {
		var err error
		if parts[i], err = c.newSlave(spec); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range parts {
		name := "slave " + c.up.slaves[i].addr.String()
		c.run(name, p)
		group.Go(func() error { return c.await(ctx, name, p) })
	}
	return group.Wait()
}

func (c *cluster) newSlave(spec slaveSpec) (part, error) {
	cfg := slave.Config{
		Addr: spec.addr.String(), Master: "127.0.0.1", Priority: spec.priority,
		Data: filepath.Join(c.data, spec.addr.String()), HopTimeout: c.up.master.HopTimeout, Logger: c.up.log,
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, err
	}
	return slave.New(cfg)
}

// findMapper learns which portmapper clients will ask.
func (c *cluster) findMapper(ctx context.Context, m *master.Master) error {
	if c.up.master.Portmap == node.PortmapperOff {
		p, err := portmap.Local(ctx)
		if err != nil {
			return fmt.Errorf("--portmap off, and this host has no portmapper: %s\nstart rpcbind or bin/portmap first", peer.Reason(err))
		}
		return p.Close()
	}
	if c.mapper = m.Portmapper(); c.mapper.Port == 0 {
		return errors.New(c.mapper.String())
	}
	return nil
}

// run runs a part until stop. A part that ends by itself is in failed.
func (c *cluster) run(name string, p part) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := p.Run(ctx)
		if ctx.Err() == nil {
			c.failed <- fmt.Errorf("%s ended: %w", name, cmp.Or(err, errors.New("nobody asked it to")))
			err = nil // told already
		}
		done <- err
	}()
	c.stops = append(c.stops, func() error { cancel(); return <-done })
}

// await waits until a part is ready, any part fails, or ctx ends.
func (c *cluster) await(ctx context.Context, name string, p part) error {
	select {
	case <-p.Ready():
		return nil
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%s is not ready after %v", name, startTimeout)
		}
		return nil // asked to end
	}
}

// answers waits until all slaves serve, as a client sees it.
func (c *cluster) answers(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := c.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready after %v: %s", startTimeout, said(err))
			}
			return nil
		}
	}
}

// ask goes the way of a client: portmapper, master, and each slave.
func (c *cluster) ask(ctx context.Context) error {
	m, err := client.Dial(ctx, "127.0.0.1")
	if err != nil {
		return err
	}
	defer m.Close()
	st, err := m.Status(ctx)
	if err != nil {
		return err
	}
	for _, spec := range c.up.slaves {
		addr := spec.addr.String()
		i := slices.IndexFunc(st.Slaves, func(s structs.SlaveStatus) bool { return string(s.Addr) == addr })
		if i < 0 {
			return fmt.Errorf("slave %s has not joined", addr)
		}
		if s := st.Slaves[i]; s.State != structs.SLAVE_SERVING {
			return fmt.Errorf("slave %s is %s: %s", addr, word(s.State, "SLAVE_"), s.Problem)
		}
		conn, err := portmap.Dial(ctx, "tcp", addr, structs.SLAVE_PROG, structs.SLAVE_V2, rpc.ClientConfig{})
		if err != nil {
			return fmt.Errorf("slave %s: %s", addr, peer.Reason(err))
		}
		err = conn.Call(ctx, structs.SLAVE_PROG, structs.SLAVE_V2, 0, nil, nil)
		conn.Close()
		if err != nil {
			return fmt.Errorf("slave %s: %s", addr, peer.Reason(err))
		}
	}
	return nil
}

// fixLo gives lo the slaves' addresses where the host's portmapper names only
// such, or says how to.
func (c *cluster) fixLo(ctx context.Context) {
	addrs := make([]netip.Addr, len(c.up.slaves))
	for i, s := range c.up.slaves {
		addrs[i] = s.addr
	}
	if !needsLoAddrs(ctx, addrs) {
		return
	}
	if os.Geteuid() == 0 {
		err := c.lo.add(ctx, addrs)
		if err == nil {
			c.loHint = fmt.Sprintf("it names only addresses of lo: %s added, and removed at the end", strings.Join(c.lo.added, " "))
			return
		}
		c.up.log.Warn("cannot give lo the slaves' addresses", "err", err)
	}
	c.loHint = "it names only addresses of lo, so C clients do not reach the slaves by theirs; for that: " + loCommands(addrs)
}

// mapperLines say which portmapper clients find the cluster through.
func (c *cluster) mapperLines() []string {
	if c.up.master.Portmap == node.PortmapperOff {
		return []string{"the host's, if it has one (--portmap off)"}
	}
	lines := []string{strings.TrimPrefix(c.mapper.String(), "portmapper on ")}
	if c.loHint != "" {
		lines = append(lines, c.loHint)
	}
	return lines
}

// stop ends the parts, the master first: the queries that it is still to answer
// need the slaves.
func (c *cluster) stop() error {
	errs := make([]error, len(c.stops))
	if len(c.stops) > 0 {
		errs[0] = c.stops[0]()
	}
	var wg sync.WaitGroup
	for i := 1; i < len(c.stops); i++ {
		wg.Go(func() { errs[i] = c.stops[i]() })
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	return errors.Join(errors.Join(errs...), c.lo.remove(ctx))
}

// sortErrors orders what was found in a map.
func sortErrors(errs []error) {
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}
