package slave

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"starfish/machine"
	"starfish/peer"
	"starfish/rpc"
	"starfish/structs"
)

// cluster is the slave's side of its membership: it joins the master again and
// again, and keeps the list of machines that a handler may call.
type cluster struct {
	cfg      Config
	log      *slog.Logger
	instance uint64
	problem  func() string      // of the slave's disk, for the master
	secret   structs.JoinSecret // what the master proves itself by; drawn anew for each start

	members atomic.Pointer[members]
	kick    chan struct{} // asks for a join now

	tried  chan struct{} // closed after the first attempt to join
	once   sync.Once
	turn   chan struct{} // held by who calls the master; guards what follows
	conn   *rpc.Client
	asked  time.Time // when the last call began
	fault  string    // last one logged
	joined bool      // at least once
}

// members is one immutable list of machines: canonical name to version of
// SLAVE_PROG.
type members map[string]uint32

func newCluster(cfg Config, instance uint64) *cluster {
	c := &cluster{cfg: cfg, log: cfg.Logger, instance: instance, problem: func() string { return "" }, kick: make(chan struct{}, 1), tried: make(chan struct{}), turn: make(chan struct{}, 1)}
	rand.Read(c.secret[:])
	c.members.Store(&members{})
	if cfg.Master == "" {
		close(c.tried)
	}
	return c
}

// isMaster reports whether who brings the secret is the master that this process
// has joined: nobody else was told it. Where it comes from does not count: a host
// has several addresses, and calls from the one that its routes choose.
func (c *cluster) isMaster(secret structs.JoinSecret) bool {
	return c.cfg.Master != "" && subtle.ConstantTimeCompare(secret[:], c.secret[:]) == 1
}

// joinSoon has the master told the secret again: one that was started anew does
// not know it.
func (c *cluster) joinSoon() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// run joins until ctx ends; a failed attempt is repeated sooner.
func (c *cluster) run(ctx context.Context) {
	if c.cfg.Master == "" {
		return
	}
	for ctx.Err() == nil {
		wait := c.cfg.JoinInterval
		if c.join(ctx, time.Now()) != nil {
			wait = min(wait, time.Second)
		}
		c.once.Do(func() { close(c.tried) })
		select {
		case <-time.After(wait):
		case <-c.kick:
		case <-ctx.Done():
		}
	}
	c.turn <- struct{}{}
	c.hangUp()
	<-c.turn
}

// settled waits for the first attempt to join.
func (c *cluster) settled(ctx context.Context) {
	select {
	case <-c.tried:
	case <-ctx.Done():
	}
}

// refresh asks the master for the list of machines as it is now: who named an
// unknown one may know more than we do. Calls are kept refreshInterval apart.
func (c *cluster) refresh(ctx context.Context) {
	if c.cfg.Master == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HopTimeout)
	defer cancel()
	if err := c.join(ctx, time.Now()); err != nil {
		c.log.Debug("cannot refresh the list of machines", "err", err)
	}
}

// join calls the master, unless a call that began after since has brought the
// answer meanwhile.
func (c *cluster) join(ctx context.Context, since time.Time) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.asked.After(since) {
		return nil
	}
	if wait := time.Until(c.asked.Add(refreshInterval)); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	err := c.call(ctx)
	if err != nil && ctx.Err() == context.Canceled {
		return err
	}
	fault := ""
	if err != nil {
		fault = peer.Reason(err)
	}
	switch {
	case err != nil && fault != c.fault:
		c.log.Warn("cannot join the cluster; trying again", "master", c.cfg.Master, "why", fault)
		c.log.Debug("cannot join the cluster", "err", err)
	case err == nil && (c.fault != "" || !c.joined):
		c.log.Info("joined the cluster", "master", c.cfg.Master, "machines", len(*c.members.Load()))
	}
	c.fault, c.joined = fault, c.joined || err == nil
	return err
}

// call makes one MASTER_JOIN, over another connection where the kept one ended.
func (c *cluster) call(ctx context.Context) error {
	for kept := c.conn != nil; ; kept = false {
		if c.conn == nil {
			conn, err := c.cfg.DialMaster(ctx, c.cfg.Master)
			if err != nil {
				return fmt.Errorf("slave: reaching the master: %w", err)
			}
			c.conn = conn
		}
		res, err := structs.NewMasterProgMasterV2Client(c.conn).MasterJoin(ctx, structs.JoinRequest{
			Addr: structs.MachineName(c.cfg.Addr), Protocol: structs.SLAVE_V2, Priority: c.cfg.Priority, Instance: c.instance, Secret: c.secret, Problem: c.problem(),
		})
		if err != nil {
			c.hangUp()
			if kept && errors.Is(err, rpc.ErrClosed) {
				continue
			}
			return fmt.Errorf("slave: joining: %w", err)
		}
		if res.Status != structs.QUERY_OK {
			return fmt.Errorf("slave: the master refused the join (%v): %s", res.Status, res.Failure.Message)
		}
		c.accept(res.Answer)
		return nil
	}
}

func (c *cluster) accept(a structs.JoinAnswer) {
	list := make(members, len(a.Machines))
	for _, m := range a.Machines {
		list[machine.Canonical(string(m.Addr))] = m.Protocol
	}
	c.members.Store(&list)
}

func (c *cluster) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
