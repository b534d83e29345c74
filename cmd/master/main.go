// Command master is the front door of a Starfish cluster.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"starfish/cmd/internal/number"
	"starfish/cmd/internal/release"
	"starfish/master"
	"starfish/node"
	"starfish/peer"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() {
	ctx, stop := node.Signals(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0 a clean end, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	log := node.NewLog("master", stderr)
	defer log.Close(stdout)
	started := false
	cmd := command(&started)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(log)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(log, "master:", peer.Plain(err.Error()))
		if !started {
			fmt.Fprintln(log, "master --help tells the flags")
			return 2
		}
		return 1
	}
	return 0
}

func command(started *bool) *cobra.Command {
	var (
		cfg      master.Config
		listen   []string
		allow    []string
		overlap  bool
		logLevel string
		portFlag uint16
		mapper   string
	)
	cmd := &cobra.Command{
		Use:   "master --data DIR",
		Short: "Serve queries and puts of a Starfish cluster",
		Long: `master answers MASTER_PROG: it takes queries and puts, and knows which slave holds
which vector. It listens on loopback, and on the addresses of --listen; reading is for
whoever can connect, changes need loopback or --allow. It registers with the host's
portmapper, and serves one itself where the host has none.

It prints "ready" on a line of its own when it is, and ends cleanly at SIGINT or SIGTERM;
SIGHUP does nothing. It tells systemd (Type=notify) both.`,
		Example: `  master --data /var/lib/starfish/master
  master --data ./m --replicas 1 --log-level debug
  master --data ./m --listen 10.0.0.5 --allow 10.0.0.0/24

  # its slaves, on this host or others:
  slave --master 10.0.0.5 --addr 10.0.0.6 --data ./s1`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Listen, err = parseAll(listen, "--listen", netip.ParseAddr); err != nil {
				return err
			}
			if cfg.Allow, err = parseAll(allow, "--allow", parsePrefix); err != nil {
				return err
			}
			if cfg.Portmap, err = node.ParsePortmapper(mapper); err != nil {
				return fmt.Errorf("--portmap: %w", err)
			}
			var level slog.Level
			if err := level.UnmarshalText([]byte(logLevel)); err != nil {
				return fmt.Errorf("--log-level %q is not debug, info, warn or error", logLevel)
			}
			cfg.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			cfg.Port = int(portFlag)
			cfg.Release = version
			cfg.NoOverlap = !overlap
			if cfg.NoOverlap && !cmd.Flags().Changed("replicas") {
				cfg.Replicas = 1
			}
			*started = cfg.Check() == nil
			return serve(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	cmd.SetVersionTemplate(release.Line("master", version))
	f := cmd.Flags()
	f.StringVar(&cfg.Data, "data", "", "directory of the catalog; made if it is not there")
	number.Var(f, &cfg.Replicas, "replicas", master.DefaultReplicas, "slaves that hold each vector that is not pinned")
	f.StringSliceVar(&listen, "listen", nil, "addresses to listen on besides 127.0.0.1 and ::1 (0.0.0.0 or :: for all)")
	f.StringSliceVar(&allow, "allow", nil, "CIDR of callers that may change something, besides loopback")
	number.Var(f, &portFlag, "port", master.DefaultPort, "TCP and UDP port")
	f.DurationVar(&cfg.HopTimeout, "hop-timeout", master.DefaultHopTimeout, "a slave that is silent for so long counts as failed")
	f.StringVar(&cfg.Balance, "balance", "random", "who serves among equal holders: random")
	_ = f.MarkHidden("balance") // one choice is none
	f.StringVar(&cfg.Coordinator, "coordinator", "bandwidth", "who coordinates a range query: bandwidth (the slave that holds most of it), random or round-robin")
	f.StringVar(&cfg.Strategy, "strategy", "auto", "how a range query runs: auto or parallel (one call to each slave), or chain (hop by hop)")
	number.Var(f, &cfg.Seed, "seed", 0, "replays the choices of an earlier run; 0: drawn")
	f.BoolVar(&overlap, "overlap", true, "let several slaves hold a vector")
	f.StringVar(&mapper, "portmap", "auto", "auto: use the host's portmapper, else serve one; off: never serve one")
	f.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func serve(ctx context.Context, cfg master.Config, out io.Writer) error {
	notify := node.NewNotifier(cfg.Logger)
	defer notify.Close()
	m, err := master.New(cfg)
	if err != nil {
		return err
	}
	return node.Serve(ctx, m, notify, func() string {
		if msg := m.Portmapper().Message; msg != "" {
			fmt.Fprintln(out, m.Portmapper())
		}
		fmt.Fprintf(out, "master on %s\nready\n", m.Addr())
		return fmt.Sprintf("master on %s", m.Addr())
	})
}

func parseAll[T any](texts []string, flag string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, s := range texts {
		v, err := parse(s)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", flag, s, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// parsePrefix reads a CIDR, or an address as the prefix of it alone.
func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}
