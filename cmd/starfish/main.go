// Command starfish runs a whole cluster in one process (up) and is the way to
// one for people: put, load, query, explain, status and the rest, over
// MASTER_PROG version 2.
//
// Exit codes: 0 done, 1 failed (the reason is on standard error), 2 wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"starfish/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "starfish: %s\n", describe(err))
	if errors.As(err, new(*usageError)) {
		fmt.Fprintf(stderr, "see '%s --help'\n", cmd.CommandPath())
		return 2
	}
	return 1
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

docs/query.md has the whole language.`,
		Example: `  starfish up &                       # a cluster of three slaves on this machine
  starfish put 7 --rows 1,5,9
  starfish query 'R:0-10'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(noCommand),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	pf := root.PersistentFlags()
	pf.StringVar(&g.master, "master", "", "host of the master, without a port (env STARFISH_MASTER; default 127.0.0.1)")
	pf.DurationVar(&g.timeout, "timeout", 30*time.Second, "how long one call may take, connecting included")
	root.AddCommand(
		newUp(), newPut(g), newDelete(g), newGet(g), newLoad(g), newQuery(g), newExplain(g),
		newStatus(g), newMembers(g), newJoin(g), newVersion(),
	)
	return root
}

func noCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("there is no command %q", args[0])
	}
	return nil
}

// host is where the master is: the flag, the environment, this machine.
func (g *globals) host() string {
	switch {
	case g.master != "":
		return g.master
	case os.Getenv("STARFISH_MASTER") != "":
		return os.Getenv("STARFISH_MASTER")
	}
	return "127.0.0.1"
}

// withMaster connects, calls f, and closes. Within the timeout for f too,
// unless f makes contexts of its own from the one it is given.
func (g *globals) withMaster(cmd *cobra.Command, f func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	c, err := client.Dial(ctx, g.host())
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
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
