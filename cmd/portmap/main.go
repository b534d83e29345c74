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
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"starfish/portmap"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is a command line that cannot be run: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the program without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "portmap: %s\n", describe(err))
	if errors.As(err, new(usageError)) {
		fmt.Fprintf(stderr, "see '%s --help'\n", cmd.CommandPath())
		return 2
	}
	return 1
}

type options struct {
	listen []string
	port   int
	socket string
	debug  bool
}

func newRoot() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:   "portmap",
		Short: "The portmapper: tells RPC clients the ports of programs",
		Long: `portmap is a portmapper in the place of rpcbind: C programs register with it
(rpcgen's servers, svc_create, pmap_set) and ask it for ports (clnt_create,
rpcinfo). It serves all loopback addresses and the unix socket; other hosts
reach it where --listen says so, and can ask but not register.

It runs in the foreground, prints a line with 'ready' when it serves, and ends
on SIGINT or SIGTERM.`,
		Example: `  sudo portmap                        # in the place of rpcbind, for this host
  sudo portmap --listen 0.0.0.0       # for other hosts too
  portmap --port 10111 --socket ''    # without privileges; only our clients ask there
  sudo setcap cap_net_bind_service=+ep portmap   # lets every user serve port 111`,
		Args:          func(cmd *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(cmd, args)) },
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd, o) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return asUsage(err) })
	flags := root.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&o.listen, "listen", nil, "address to serve beside loopback; may be repeated; 0.0.0.0 or :: for all")
	flags.IntVar(&o.port, "port", portmap.DefaultPort, "port for TCP and UDP; C clients ask 111 only")
	flags.StringVar(&o.socket, "socket", portmap.DefaultSocket, "unix socket where C servers register; '' for none")
	flags.BoolVarP(&o.debug, "debug", "d", false, "log every call")
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  func(cmd *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "portmap %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	})
	return root
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func serve(cmd *cobra.Command, o options) error {
	cfg, err := o.config(cmd.ErrOrStderr())
	if err != nil {
		return asUsage(err)
	}
	srv, err := portmap.New(cfg)
	if err != nil {
		return asUsage(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(cmd.Context()) }()
	select {
	case err := <-ended:
		return err
	case <-srv.Ready():
	}
	fmt.Fprintf(cmd.OutOrStdout(), "portmap on port %d\nready\n", srv.Port())
	return <-ended
}

func (o options) config(logTo io.Writer) (portmap.Config, error) {
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	cfg := portmap.Config{
		Port:       o.port,
		SocketPath: o.socket,
		Logger:     slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: level})),
	}
	if o.port < 1 || o.port > 65535 {
		return cfg, fmt.Errorf("--port %d: a port is 1 to 65535", o.port)
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
	msg := err.Error()
	switch {
	case errors.Is(err, fs.ErrPermission):
		msg += "\na port below 1024 needs root, or 'setcap cap_net_bind_service=+ep' on the binary; --port takes another"
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, portmap.ErrInUse):
		msg += "\nanother portmapper runs: 'rpcinfo -p' shows what it knows; stop it first ('systemctl stop rpcbind rpcbind.socket')"
	}
	return msg
}
