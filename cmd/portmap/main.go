// Command portmap is a portmapper (rpcbind): versions 2, 3 and 4 of program
// 100000 over UDP, TCP and a unix socket.
//
// Exit codes: 0 ended by SIGINT or SIGTERM, 1 failed (the reason is on standard
// error), 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"starfish/cmd/internal/number"
	"starfish/cmd/internal/release"
	"starfish/node"
	"starfish/portmap"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() {
	ctx, stop := node.Signals(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is a command line that cannot be run: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the program without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	log := node.NewLog("portmap", stderr)
	defer log.Close(stdout)
	root := newRoot(log)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(log)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(log, "portmap: %s\n", describe(err))
	if errors.As(err, new(usageError)) {
		fmt.Fprintf(log, "see '%s --help'\n", cmd.CommandPath())
		return 2
	}
	return 1
}

// options are the flags.
type options struct {
	log *node.Log

	listen    []string
	port      int
	socket    string
	user      string
	asDaemon  bool
	warmStart string
	reap      time.Duration
	insecure  bool
	remote    bool
	rate      float64
	metrics   string
	debug     bool
	logCalls  bool
	logFormat string
}

func newRoot(log *node.Log) *cobra.Command {
	o := options{log: log}
	root := &cobra.Command{
		Use:   "portmap",
		Short: "The portmapper: tells RPC clients the ports of programs",
		Long: `portmap is a portmapper in the place of rpcbind: C programs register with it
(rpcgen's servers, svc_create, pmap_set) and ask it for ports (clnt_create,
rpcinfo). It serves all loopback addresses and the unix socket; other hosts
reach it where --listen says so, and can ask but not register.

It stays in the foreground, prints 'ready' on a line of its own when it serves, and ends
on SIGINT or SIGTERM; SIGHUP does nothing. Started by root it gives up root's rights as soon as its
sockets are open. It takes the sockets of systemd and tells it when it is ready.`,
		Example: `  sudo portmap                        # in the place of rpcbind, for this host
  sudo portmap --listen 0.0.0.0       # for other hosts too
  sudo portmap -w -h 192.0.2.1 -h ::  # as rpcbind's flags say it, keeping registrations over restarts
  portmap --port 10111 --socket ''    # without privileges; only our clients ask there
  sudo setcap cap_net_bind_service=+ep portmap   # lets every user serve port 111`,
		Version:       version,
		Args:          func(cmd *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(cmd, args)) },
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd, o) },
	}
	root.SetVersionTemplate(release.Line("portmap", version))
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return asUsage(err) })
	o.addFlags(root)
	root.AddCommand(versionCommand(), keeperCommand())
	return root
}

// addFlags adds ours, by rpcbind's letters where it has them.
func (o *options) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVarP(&o.listen, "listen", "h", nil, "`address` to serve beside loopback; may be repeated; 0.0.0.0 or :: for all")
	number.Var(flags, &o.port, "port", portmap.DefaultPort, "port for TCP and UDP; C clients ask 111 only")
	flags.StringVar(&o.socket, "socket", portmap.DefaultSocket, "unix socket where C servers register; '' for none")
	flags.StringVarP(&o.warmStart, "warm-start", "w", "", "keep registrations over a restart, in `file`: the one that rpcbind -w has where none is named")
	flags.Lookup("warm-start").NoOptDefVal = portmap.DefaultWarmStart
	flags.DurationVar(&o.reap, "reap", 0, "drop registrations of dead programs of this host, looking every so often")
	flags.Lookup("reap").NoOptDefVal = portmap.DefaultReap.String()
	flags.BoolVarP(&o.insecure, "insecure", "i", false, "let every user of this host register ports below 1024")
	flags.BoolVarP(&o.remote, "remote-calls", "r", false, "pass calls on to programs of this host (CALLIT, BCAST, INDIRECT)")
	number.FractionVar(flags, &o.rate, "rate", portmap.DefaultRate, "long answers and passed on calls a second of one other host, and 100 times as many look-ups; 0 for any number")
	flags.StringVarP(&o.user, "user", "u", "", "become this `user` when the sockets are open; by default "+rpcUser+", else "+nobody+", where root starts us")
	flags.BoolVarP(&o.asDaemon, "as-daemon", "s", false, "become the user daemon: --user daemon")
	flags.StringVar(&o.metrics, "metrics", "", "serve Prometheus metrics over HTTP at this `address`, host:port")
	flags.BoolVarP(&o.debug, "debug", "d", false, "log every call and change")
	flags.BoolVarP(&o.logCalls, "log-calls", "l", false, "log every call")
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
	flags.BoolP("foreground", "f", true, "stay in the foreground, as always")
	flags.BoolP("abort", "a", false, "")
	flags.BoolP("oldstyle-local", "L", false, "")
	for _, name := range []string{"abort", "oldstyle-local"} { // rpcbind's, without a meaning here
		_ = flags.MarkHidden(name)
	}
	flags.Bool("help", false, "show this")
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  func(cmd *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), release.Line("portmap", version))
			return err
		},
	}
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// serve runs the portmapper until the command's context ends.
func serve(cmd *cobra.Command, o options) error {
	cfg, err := o.config(o.log)
	if err != nil {
		return asUsage(err)
	}
	notify := node.NewNotifier(cfg.Logger) // while we may
	defer notify.Close()
	if cfg.Inherited, err = listenFiles(); err != nil {
		return err
	}
	if who, err := o.account(); err != nil {
		return asUsage(err)
	} else if who != nil {
		keeper, err := o.prepare(&cfg, *who)
		if err != nil {
			return err
		}
		defer keeper.close()
	}
	page, err := o.startMetrics(cmd.Context(), &cfg)
	if err != nil {
		return err
	}
	srv, err := portmap.New(cfg)
	if err != nil {
		return asUsage(err)
	}
	stop := func() {}
	defer func() { stop() }()
	return node.Serve(cmd.Context(), srv, notify, func() string {
		stop = page.serve(srv)
		fmt.Fprintf(cmd.OutOrStdout(), "portmap ready on port %d\nready\n", srv.Port())
		return fmt.Sprintf("serving port %d", srv.Port())
	})
}

func (o options) config(logTo io.Writer) (portmap.Config, error) {
	cfg := portmap.Config{
		Port: o.port, SocketPath: o.socket, WarmStart: o.warmStart, Reap: o.reap,
		Insecure: o.insecure, RemoteCalls: o.remote, Rate: o.rate, LogCalls: o.logCalls,
	}
	if o.rate == 0 {
		cfg.Rate = -1
	}
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	switch o.logFormat {
	case "text":
		cfg.Logger = slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: level}))
	case "json":
		cfg.Logger = slog.New(slog.NewJSONHandler(logTo, &slog.HandlerOptions{Level: level}))
	default:
		return cfg, fmt.Errorf("--log-format %q: text or json is wanted", o.logFormat)
	}
	switch {
	case o.port < 1 || o.port > 65535:
		return cfg, fmt.Errorf("--port %d: a port is 1 to 65535", o.port)
	case o.rate < 0:
		return cfg, fmt.Errorf("--rate %v: a rate is 0 or more", o.rate)
	case o.reap < 0:
		return cfg, fmt.Errorf("--reap %v: a time is 0 or more", o.reap)
	case o.asDaemon && o.user != "":
		return cfg, errors.New("-s and --user: one of them")
	}
	for _, s := range o.listen {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return cfg, fmt.Errorf("--listen %q: an IP address is wanted, such as 192.0.2.1 or 0.0.0.0", s)
		}
		cfg.Listen = append(cfg.Listen, addr)
	}
	return cfg, nil
}

// describe adds to an error what the user can do about it.
func describe(err error) string {
	msg := strings.TrimPrefix(err.Error(), "portmap: ")
	switch {
	case errors.Is(err, fs.ErrPermission) && errors.As(err, new(*net.OpError)): // of a socket
		msg += "\na port below 1024 needs root, or 'setcap cap_net_bind_service=+ep' on the binary; --port takes another"
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, portmap.ErrInUse):
		msg += "\nanother portmapper runs: 'rpcinfo -p' shows what it knows; stop it first ('systemctl stop rpcbind rpcbind.socket')"
	}
	return msg
}
