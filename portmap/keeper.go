package portmap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of a Keeper.
const (
	DefaultKeepInterval = 3 * time.Second
	// keepTimeout bounds one round of registrations, and the leaving.
	keepTimeout = 2 * time.Second
	// sayAgain is how many rounds pass until a fault that lasts is logged again.
	sayAgain = 20
	// aliveTimeout bounds the question whether a registered program answers.
	aliveTimeout = 500 * time.Millisecond
)

// KeeperConfig says what a Keeper registers.
type KeeperConfig struct {
	Registrations []Registration // Owner is ignored
	Interval      time.Duration  // between two rounds; 0: DefaultKeepInterval

	// SiblingAnswers is asked on leaving, for each registration, whether another
	// process still serves it (several slaves of one host share a port): true
	// leaves it registered. nil: none does.
	SiblingAnswers func(context.Context, Registration) bool

	// Alive tells whether the program registered at another address (the
	// Registration's Addr) answers. Where it does not, its registration is
	// replaced by ours. nil: the function Answers.
	Alive func(context.Context, Registration) bool

	// Local connects to the host's portmapper. nil: the function Local.
	Local func(context.Context) (*Client, error)

	Logger *slog.Logger // nil: none
}

// A Keeper registers programs with the host's portmapper, and again every few
// seconds: a portmapper that was restarted, or taken over by another process,
// has them back at once.
type Keeper struct {
	cfg   KeeperConfig
	ready chan struct{}
	once  sync.Once
	fault string // last one logged
	quiet int    // rounds since then
}

// NewKeeper makes a Keeper; Run starts it.
func NewKeeper(cfg KeeperConfig) *Keeper {
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultKeepInterval
	}
	if cfg.SiblingAnswers == nil {
		cfg.SiblingAnswers = func(context.Context, Registration) bool { return false }
	}
	if cfg.Alive == nil {
		cfg.Alive = Answers
	}
	if cfg.Local == nil {
		cfg.Local = Local
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: cfg, ready: make(chan struct{})}
}

// Ready is closed when everything was registered for the first time.
func (k *Keeper) Ready() <-chan struct{} { return k.ready }

// Run registers until ctx ends, then unsets what no sibling serves, and
// returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(k.cfg.Interval)
	defer ticker.Stop()
	for {
		k.round(ctx)
		select {
		case <-ctx.Done():
			k.leave(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
	}
}

// round registers everything once, and logs where that begins or ceases to fail,
// and now and then while it fails.
func (k *Keeper) round(ctx context.Context) {
	err := k.register(ctx)
	if ctx.Err() != nil {
		return
	}
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if err == nil {
		k.once.Do(func() { close(k.ready) })
	}
	switch {
	case fault == k.fault && (err == nil || k.quiet < sayAgain):
		k.quiet++
		return
	case err != nil:
		k.cfg.Logger.Warn("cannot register with the portmapper", "err", err)
	default:
		k.cfg.Logger.Info("registered with the portmapper again")
	}
	k.fault, k.quiet = fault, 0
}

func (k *Keeper) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	c, err := k.cfg.Local(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var errs []error
	for _, reg := range k.cfg.Registrations {
		err := c.Set(ctx, reg)
		if errors.Is(err, ErrRefused) {
			err = k.replace(ctx, c, reg, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// replace puts reg in the place of a registration of its program at another
// address, left by a process that is gone.
func (k *Keeper) replace(ctx context.Context, c *Client, reg Registration, refused error) error {
	list, err := c.Dump(ctx)
	if err != nil {
		return err
	}
	for _, old := range list {
		if old.sameEntry(reg) && old.Addr != reg.Addr && k.cfg.Alive(ctx, old) {
			return fmt.Errorf("%w: a program that answers is at %s", refused, old.Addr)
		}
	}
	if err := c.Unset(ctx, reg.Prog, reg.Vers, reg.Netid); err != nil {
		return err
	}
	return c.Set(ctx, reg)
}

// sameEntry reports whether both are for one program, version and transport.
func (r Registration) sameEntry(o Registration) bool {
	return r.Prog == o.Prog && r.Vers == o.Vers && strings.EqualFold(r.Netid, o.Netid)
}

func (k *Keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	c, err := k.cfg.Local(ctx)
	if err != nil {
		return // a portmapper that is gone has forgotten us
	}
	defer c.Close()
	list, err := c.Dump(ctx)
	for _, reg := range k.cfg.Registrations {
		if err != nil {
			break
		}
		// What stands there at another address is another process's.
		ours := slices.ContainsFunc(list, func(r Registration) bool { return reg.sameEntry(r) && reg.Addr == r.Addr })
		if ours && !k.cfg.SiblingAnswers(ctx, reg) {
			err = c.Unset(ctx, reg.Prog, reg.Vers, reg.Netid)
		}
	}
	if err != nil && !errors.Is(err, ErrNoPortmapper) { // one that ends has forgotten us, too
		k.cfg.Logger.Warn("cannot unregister from the portmapper", "err", err)
	}
}
