// Command starfish runs a whole cluster in one process (up) and is the way to
// one for people: put, load, query, explain, status and the rest, over
// MASTER_PROG version 2.
//
// Exit codes: 0 done, 1 failed (the reason is on standard error), 2 wrong usage,
// 3 the query does not parse, 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/cmd/internal/release"
)

func main() {
	// A reader that has gone is an error of the write, and not our end: what was
	// begun is finished (see output).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitSyntax      = 3   // the query does not parse
	exitInterrupted = 130 // as of a shell's command that SIGINT ended
)

// run is the program without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &output{ctx: ctx, w: stdout}
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	addCompletion(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || errors.As(err, new(*outputError)) {
		err = out.fault()
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "starfish: %s\n", printableLines(describe(err)))
	switch {
	case errors.As(err, new(*usageError)):
		fmt.Fprintf(stderr, "see '%s --help'\n", cmd.CommandPath())
		return exitUsage
	case errors.Is(err, client.ErrSyntax):
		return exitSyntax
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// globals are the flags that every command has.
type globals struct {
	master  string
	timeout time.Duration
}

func newRoot() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:   "starfish",
		Short: "A distributed bitmap index over Sun RPC",
		Long: `starfish runs and queries a distributed bitmap index.

A vector is a set of row numbers with an id. Slaves hold vectors, each on more
than one slave; the master answers queries such as

  P:7           the rows of vector 7
  R:0-3&10-14   rows that are in one of 0..3 and in one of 10..14

docs/query.md has the whole language.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the query does not parse, 130
interrupted. Numbers are decimal, also with zeros before them.`,
		Example: `  starfish up &                       # a cluster of three slaves on this machine
  starfish put 7 --rows 1,5,9
  starfish query 'R:0-10'`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(noCommand),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(release.Line("starfish", version))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	pf := root.PersistentFlags()
	pf.StringVar(&g.master, "master", "", "host of the master, without a port (env STARFISH_MASTER; default 127.0.0.1)")
	root.PersistentPreRunE = g.checkTimeout
	pf.DurationVar(&g.timeout, "timeout", 30*time.Second, "how long one call may take, connecting included")
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(
		newUp(), newPut(g), newDelete(g), newGet(g), newLoad(g), newQuery(g), newExplain(g),
		newStatus(g), newMembers(g), newJoin(g), newRemove(g), newVersion(),
	)
	return root
}

// addCompletion adds cobra's completion command, which writes where root does by
// now, and makes it refuse shells that it does not know.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "load" && c.ValidArgsFunction == nil { // ids, texts and addresses are no files
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
		if c.Name() == "completion" {
			c.Args = usageArgs(func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return fmt.Errorf("there is no completion for %q: bash, zsh, fish or powershell", args[0])
				}
				return nil
			})
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range c.Commands() {
				shell.Args = usageArgs(cobra.NoArgs)
			}
			c.Example = "  source <(starfish completion bash)"
		}
	}
}

// newHelp is cobra's help command, which takes whatever it does not know for the
// whole program.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about a command",
		Long:    `help shows what a command does, as its --help does.`,
		Example: `  starfish help put`,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func noCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("there is no command %q", args[0])
	}
	return nil
}

// host is where the master is: the flag, the environment, this machine.
func (g *globals) host() (string, error) {
	name, host := "--master", g.master
	if host == "" {
		name, host = "STARFISH_MASTER", os.Getenv("STARFISH_MASTER")
	}
	if host == "" {
		return "127.0.0.1", nil
	}
	if bare, port, err := net.SplitHostPort(host); err == nil && bare != "" && port != "" && !strings.Contains(port, "/") {
		return "", usagef("%s: %q has a port: say %s, its portmapper knows the port", name, host, bare)
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && host == "["+ip.String()+"]" {
		return "", usagef("%s: %q has brackets: say %s", name, host, ip)
	}
	_, err := netip.ParseAddr(host)
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("[]/", r) }) || err != nil && strings.Contains(host, ":") {
		return "", usagef("%s: %q is neither a host name nor an address", name, host)
	}
	return host, nil
}

// dial connects to the master, within the time that a call may take.
func (g *globals) dial(ctx context.Context) (*client.Client, error) {
	host, err := g.host()
	if err != nil {
		return nil, err
	}
	c, err := client.Dial(ctx, host)
	return c, g.timedOut(ctx, err)
}

// timedOut says so where an error came of the end of ctx.
func (g *globals) timedOut(ctx context.Context, err error) error {
	var timed net.Error
	late := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timed) && timed.Timeout()
	if late && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.As(err, new(*timeoutError)) {
		return &timeoutError{after: g.timeout, err: err}
	}
	return err
}

// withMaster connects, calls f, and closes. Within the timeout for f too,
// unless f makes contexts of its own from the command's.
func (g *globals) withMaster(cmd *cobra.Command, f func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	c, err := g.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return g.timedOut(ctx, f(ctx, c))
}

// checkTimeout refuses a time in which nothing can be done.
func (g *globals) checkTimeout(*cobra.Command, []string) error {
	if g.timeout <= 0 {
		return usagef("--timeout: %v is no time to wait", g.timeout)
	}
	return nil
}

// splitList reads a comma-separated flag; spaces around items do not count.
func splitList(s string) []string {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
