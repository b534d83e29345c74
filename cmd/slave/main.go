// Command slave holds vectors and runs parts of queries over them.
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
	"starfish/node"
	"starfish/peer"
	"starfish/slave"
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
	log := node.NewLog("slave", stderr)
	defer log.Close(stdout)
	started := false
	cmd := command(&started)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(log)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(log, "slave:", peer.Plain(err.Error()))
		if !started {
			fmt.Fprintln(log, "slave --help tells the flags")
			return 2
		}
		return 1
	}
	return 0
}

// flags are those that are no field of the Config as they stand.
type flags struct {
	listen, allow, machines []string
	priority, logLevel      string
	port                    uint16
}

func command(started *bool) *cobra.Command {
	var cfg slave.Config
	var f flags
	cmd := &cobra.Command{
		Use:   "slave --data DIR [--master HOST] [--addr ADDR]",
		Short: "Hold vectors of a Starfish cluster and run queries over them",
		Long: `slave answers SLAVE_PROG: it keeps bitmap vectors on disk and runs parts of
queries over them. It joins the master at --master, and again every few seconds;
without --master it serves what it has and calls nobody.

--addr is the address or host name by which the master and the other slaves call
it, and the address that it listens on. Several slaves of one host have one
address each and share the port, which the host's portmapper tells: that of a
master on the host, bin/portmap or rpcbind. The slave serves none itself.

Reading is for whoever can connect. Changes are taken from loopback, from the
master that it joined, whichever of its addresses it calls from, and from --allow. It calls only machines of its cluster, and those of
--allow-machine.

It prints "ready" on a line of its own when it is, and ends cleanly at SIGINT or
SIGTERM; SIGHUP does nothing. It tells systemd (Type=notify) both.`,
		Example: `  slave --master 127.0.0.1 --addr 127.0.0.2 --data ./s1
  slave --master 127.0.0.1 --addr 127.0.0.3 --data ./s2 --priority 1
  slave --master 10.0.0.5 --addr 10.0.0.6 --data /var/lib/starfish/slave

  # alone, behind a C handler at 10.0.0.9 that hands lists on to it
  slave --addr 10.0.0.6 --data ./s1 --allow-machine 10.0.0.9`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.apply(&cfg, cmd.ErrOrStderr()); err != nil {
				return err
			}
			*started = cfg.Check() == nil
			return serve(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	cmd.SetVersionTemplate(release.Line("slave", version))
	fl := cmd.Flags()
	fl.StringVar(&cfg.Master, "master", os.Getenv("STARFISH_MASTER"), "host of the master, found through its portmapper (env STARFISH_MASTER)")
	fl.StringVar(&cfg.Addr, "addr", slave.DefaultAddr, "address or host name of this slave, without a port")
	fl.StringVar(&cfg.Data, "data", "", "directory of the vectors; made if it is not there")
	fl.StringVar(&f.priority, "priority", "", "who serves a vector of several slaves: the lowest number; not given: after all who have one")
	number.Var(fl, &f.port, "port", slave.DefaultPort, "TCP and UDP port, the same on every slave of a host")
	fl.DurationVar(&cfg.HopTimeout, "hop-timeout", slave.DefaultHopTimeout, "a machine that is silent for so long counts as failed")
	fl.StringSliceVar(&f.listen, "listen", nil, "addresses to listen on besides --addr (0.0.0.0: all)")
	fl.StringSliceVar(&f.allow, "allow", nil, "CIDR of callers that may change vectors, besides loopback and the master")
	fl.StringSliceVar(&f.machines, "allow-machine", nil, "CIDR of machines that a list may name, besides those of the cluster")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// apply writes the flags into the Config.
func (f *flags) apply(cfg *slave.Config, log io.Writer) error {
	var err error
	if cfg.Listen, err = parseAll(f.listen, "--listen", netip.ParseAddr); err != nil {
		return err
	}
	if cfg.Allow, err = parseAll(f.allow, "--allow", parsePrefix); err != nil {
		return err
	}
	if cfg.AllowMachine, err = parseAll(f.machines, "--allow-machine", parsePrefix); err != nil {
		return err
	}
	if f.priority != "" && f.priority != "-" {
		n, err := number.ParseSigned(f.priority, 32)
		if err != nil {
			return fmt.Errorf("--priority %q is no number from -2147483648 to 2147483647", f.priority)
		}
		p := int32(n)
		cfg.Priority = &p
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return fmt.Errorf("--log-level %q is not debug, info, warn or error", f.logLevel)
	}
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	cfg.Port = int(f.port)
	return nil
}

func serve(ctx context.Context, cfg slave.Config, out io.Writer) error {
	notify := node.NewNotifier(cfg.Logger)
	defer notify.Close()
	s, err := slave.New(cfg)
	if err != nil {
		return err
	}
	return node.Serve(ctx, s, notify, func() string {
		fmt.Fprintf(out, "slave %s on %s\nready\n", cfg.Addr, s.Addr())
		return fmt.Sprintf("slave %s on %s", cfg.Addr, s.Addr())
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
