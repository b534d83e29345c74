package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"starfish/cmd/internal/number"
	"starfish/master"
	"starfish/node"
	"starfish/portmap"
	"starfish/slave"
)

// maxSlaves is how many slaves one process runs: 127.0.0.2 to 127.0.0.101.
const maxSlaves = 100

// upFlags are the flags of up as they are typed.
type upFlags struct {
	slaves, replicas             int
	data, priority               string
	balance, coordinator, mapper string
	seed                         uint64
	hopTimeout                   time.Duration
	listen, allow                []string
	verbose                      bool
}

func newUp() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a whole cluster in one process, for trying things",
		Long: `up runs a master at 127.0.0.1 and slaves at 127.0.0.2, 127.0.0.3 and so on, and a
portmapper where the host has none. It prints ready on a line of its own when
every part answers, and ends cleanly on SIGINT or SIGTERM; SIGHUP
does nothing, so that it outlives the terminal.

Without --data the vectors are in a temporary directory that is removed at the
end. C clients need a portmapper on port 111: where up may not bind it, it
serves 10111 and says what is to be done. For a cluster on several hosts run
bin/master and bin/slave.`,
		Example: `  starfish up
  starfish up --slaves 5 --replicas 3 --data ./vectors
  starfish up --priority=1,2,-       # the first slave serves first, the third last
  starfish up --listen 10.0.0.5      # others may query; changes stay local`,
		Args: usageArgs(cobra.NoArgs),
	}
	fl := cmd.Flags()
	number.Var(fl, &f.slaves, "slaves", 3, "how many slaves")
	fl.StringVar(&f.data, "data", "", "directory of the vectors (default: a temporary one)")
	number.Var(fl, &f.replicas, "replicas", 2, "how many slaves hold each vector")
	fl.StringVar(&f.priority, "priority", "", "priorities in the slaves' order, - for none: 1,2,-")
	fl.StringVar(&f.balance, "balance", "random", "choice among equal holders: random")
	_ = fl.MarkHidden("balance") // one choice is none
	fl.StringVar(&f.coordinator, "coordinator", "bandwidth", "choice of the coordinator: bandwidth (who holds most of the query), random or round-robin")
	number.Var(fl, &f.seed, "seed", 0, "replay the choices of an earlier run from its start")
	fl.DurationVar(&f.hopTimeout, "hop-timeout", time.Second, "how long a slave may stay silent before another is asked")
	fl.StringSliceVar(&f.listen, "listen", nil, "addresses to answer queries at, besides loopback")
	fl.StringSliceVar(&f.allow, "allow", nil, "networks (CIDR) that may change something, besides loopback")
	fl.StringVar(&f.mapper, "portmap", "auto", "auto: serve a portmapper where the host has none; off: never")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "log what happens, not only what goes wrong")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log := node.NewLog("starfish", cmd.ErrOrStderr())
		defer log.Close(os.Stdout)
		u, err := f.plan(log)
		if err != nil {
			return &usageError{err}
		}
		ctx, stop := node.Signals(cmd.Context())
		defer stop()
		return u.run(ctx, cmd.OutOrStdout())
	}
	return cmd
}

// up is a cluster to run.
type up struct {
	master master.Config // without its directory
	slaves []slaveSpec
	data   string // "": a temporary directory
	log    *slog.Logger
}

type slaveSpec struct {
	addr     netip.Addr
	priority *int32
}

// plan checks the flags before anything is started.
func (f *upFlags) plan(stderr io.Writer) (*up, error) {
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelInfo
	}
	u := &up{data: f.data, log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))}
	u.master = master.Config{
		Replicas: f.replicas, Coordinator: f.coordinator, Balance: f.balance,
		Seed: f.seed, HopTimeout: f.hopTimeout, Release: version, Logger: u.log,
	}
	var errs []error
	var err error
	if u.master.Portmap, err = node.ParsePortmapper(f.mapper); err != nil {
		errs = append(errs, fmt.Errorf("--portmap: %w", err))
	}
	if f.slaves < 1 || f.slaves > maxSlaves {
		return nil, fmt.Errorf("--slaves: %d is not between 1 and %d", f.slaves, maxSlaves)
	}
	priorities, err := parsePriorities(f.priority, f.slaves)
	errs = append(errs, err)
	for i := range f.slaves {
		spec := slaveSpec{addr: netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i)})}
		if i < len(priorities) {
			spec.priority = priorities[i]
		}
		u.slaves = append(u.slaves, spec)
	}
	for _, s := range f.listen {
		a, err := netip.ParseAddr(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("--listen: %q is not an address without a port", s))
		}
		u.master.Listen = append(u.master.Listen, a)
	}
	for _, s := range f.allow {
		p, err := parseNetwork(s)
		errs = append(errs, err)
		u.master.Allow = append(u.master.Allow, p)
	}
	if f.replicas < 1 {
		errs = append(errs, fmt.Errorf("--replicas: %d is less than 1", f.replicas))
	}
	if f.hopTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--hop-timeout: %v is no time to wait", f.hopTimeout))
	}
	check := u.master
	check.Data = "." // decided later
	errs = append(errs, check.Check())
	return u, errors.Join(errs...)
}

// parseNetwork reads a CIDR, or an address as the network of it alone.
func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("--allow: %q is neither a network like 10.0.0.0/8 nor an address", s)
	}
	return p.Masked(), nil
}

// parsePriorities reads "1,2,-": a number each slave, - for none.
func parsePriorities(s string, slaves int) ([]*int32, error) {
	items := splitList(s)
	if len(items) > slaves {
		return nil, fmt.Errorf("--priority: %d values for %d slaves", len(items), slaves)
	}
	out := make([]*int32, len(items))
	for i, item := range items {
		if item == "-" {
			continue
		}
		n, err := number.ParseSigned(item, 32)
		if err != nil {
			return nil, fmt.Errorf("--priority: %q is neither a 32-bit number nor -", item)
		}
		p := int32(n)
		out[i] = &p
	}
	return out, nil
}

// run runs the cluster until ctx ends or a part of it fails.
func (u *up) run(ctx context.Context, out io.Writer) (err error) {
	if err := u.free(ctx); err != nil {
		return err
	}
	data, temporary := u.data, u.data == ""
	if temporary {
		if data, err = os.MkdirTemp("", "starfish-up-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	}
	notify := node.NewNotifier(u.log)
	defer notify.Close()
	c := &cluster{up: u, data: data}
	defer func() {
		notify.Stopping()
		err = errors.Join(err, c.stop())
	}()
	if err := c.start(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	c.describe(out, temporary)
	fmt.Fprintln(out, "ready")
	notify.Ready("serving")
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		return err
	}
}

// free checks that every address is to be had, before anything is touched.
func (u *up) free(ctx context.Context) error {
	at := map[string]string{hostPort("127.0.0.1", master.DefaultPort): "master"}
	for _, a := range u.master.Listen {
		at[hostPort(a.String(), master.DefaultPort)] = "master"
	}
	for _, s := range u.slaves {
		at[hostPort(s.addr.String(), slave.DefaultPort)] = "slave"
	}
	var errs []error
	var lc net.ListenConfig
	for addr, what := range at {
		l, err := lc.Listen(ctx, "tcp", addr)
		switch {
		case err == nil:
			l.Close()
		case errors.Is(err, unix.EADDRINUSE):
			errs = append(errs, fmt.Errorf("%s is in use: a %s runs there already", addr, what))
		default:
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	sortErrors(errs)
	return fmt.Errorf("%w\n'starfish status' shows a cluster that runs; end it before starting another", errors.Join(errs...))
}

// describe prints what is served and how to reach it.
func (c *cluster) describe(out io.Writer, temporary bool) {
	addrs := make([]string, len(c.up.slaves))
	for i, s := range c.up.slaves {
		addrs[i] = s.addr.String()
	}
	masters := hostPort("127.0.0.1", master.DefaultPort)
	for _, a := range c.up.master.Listen {
		masters += " " + hostPort(a.String(), master.DefaultPort)
	}
	where := "kept"
	if temporary {
		where = "temporary: removed at the end; --data keeps the vectors"
	}
	dir, err := filepath.Abs(c.data)
	if err != nil {
		dir = c.data
	}
	fmt.Fprintf(out, "master     %s\n", masters)
	fmt.Fprintf(out, "slaves     %s, port %d\n", strings.Join(addrs, " "), slave.DefaultPort)
	fmt.Fprintf(out, "data       %s (%s)\n", dir, where)
	for _, line := range c.mapperLines() {
		fmt.Fprintf(out, "portmapper %s\n", line)
	}
	fmt.Fprintln(out, "try        starfish put 7 --rows 1,5,9; starfish query R:0-10; starfish status")
	if c.mapper.Port == portmap.DefaultPort {
		fmt.Fprintln(out, `C          clnt_create("127.0.0.1", MASTER_PROG, MASTER_V1, "tcp")`)
	}
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
