package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"starfish/client"
	"starfish/cmd/internal/number"
)

func newLoad(g *globals) *cobra.Command {
	var on string
	var parallel int
	var keepGoing bool
	cmd := &cobra.Command{
		Use:   "load FILE...",
		Short: "Store many vectors",
		Long: `load stores the vectors of index files. A line is one vector:

  # periods
  1: 0 1          the rows 0 and 1
  2: 2-9 20       the rows 2 to 9, and 20
  3:              known, and empty

Rows and ranges of rows are parted by spaces or commas; # begins a comment. All
files are checked before anything is stored, and bad lines are reported with
file and line. The first put that fails stops the load and says how many
vectors were stored; with --keep-going those that the cluster refuses are
listed at the end. Loading again is safe. The file - is standard input.`,
		Example: `  starfish load periods.idx blocks.idx
  starfish load --on 127.0.0.2,127.0.0.3 hot.idx
  printf '7: 1 5 9\n' | starfish load -`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
	}
	cmd.Flags().StringVar(&on, "on", "", "pin the vectors to these slaves instead of where placement puts them")
	number.Var(cmd.Flags(), &parallel, "parallel", 256, "puts in flight at a time")
	cmd.Flags().BoolVar(&keepGoing, "keep-going", false, "go on after vectors that are refused, and list them at the end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if parallel < 1 {
			return usagef("--parallel: %d is less than 1", parallel)
		}
		if err := checkOn(cmd, on); err != nil {
			return err
		}
		files, err := openSources(args, cmd.InOrStdin())
		if err != nil {
			return err
		}
		var total uint64
		err = abandon(cmd.Context(), func() (err error) {
			total, err = checkFiles(files)
			return err
		})
		if err != nil {
			return fmt.Errorf("nothing was stored:\n%w", err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
		defer cancel()
		c, err := g.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		l := loader{client: c, timeout: g.timeout, options: client.PutOptions{Holders: splitList(on)}, total: total, keepGoing: keepGoing}
		l.bar = newBar(cmd.ErrOrStderr(), total)
		began := time.Now()
		if err := l.run(cmd.Context(), files, parallel); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "loaded %s, %s, in %.1fs\n", count(l.stored.Load(), "vector"), count(l.rows.Load(), "row"), time.Since(began).Seconds())
		return l.refusals()
	}
	return cmd
}

// maxInFlight bounds the row numbers of the puts in flight: 256 MiB of them.
const maxInFlight = 64 << 20

// loader puts the vectors of files, many at a time over one connection.
type loader struct {
	client    *client.Client
	timeout   time.Duration // of one put
	options   client.PutOptions
	total     uint64                   // vectors there are
	bar       *progressbar.ProgressBar // nil: none is shown
	keepGoing bool

	stored, rows atomic.Uint64

	mu      sync.Mutex
	refused []refusedLine // the first of them
	lost    uint64        // all of them
}

// refusedLine is a vector that the cluster refused.
type refusedLine struct {
	loadLine
	err error
}

// maxRefused bounds how many refused vectors are listed.
const maxRefused = 1000

// run puts all vectors. An error says how many were stored.
func (l *loader) run(ctx context.Context, files []*source, parallel int) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	room := semaphore.NewWeighted(maxInFlight)
	sent := uint64(0)
	put := func(line loadLine) error {
		size := int64(min(len(line.rows.rows)+2*len(line.rows.spans), maxInFlight))
		if err := room.Acquire(gctx, size); err != nil {
			return err
		}
		sent++
		group.Go(func() error {
			defer room.Release(size)
			return l.put(gctx, line)
		})
		return nil
	}
	var readErr error
	for _, src := range files {
		if _, readErr = eachLine(src, put, func(err error) error { return err }); readErr != nil {
			break
		}
	}
	err := group.Wait() // the first failed put: what the reader saw came of it
	if l.bar != nil {
		l.bar.Exit()
	}
	switch {
	case ctx.Err() != nil && (err != nil || readErr != nil):
		err = ctx.Err()
	case err == nil:
		err = readErr
	}
	if err == nil && sent != l.total {
		err = fmt.Errorf("the files changed meanwhile: they had %s and now have %d", count(l.total, "vector"), sent)
	}
	if err != nil {
		return &loadError{err: err, stored: l.stored.Load(), total: l.total}
	}
	return nil
}

func (l *loader) put(ctx context.Context, line loadLine) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	b := line.rows.bitmap()
	if _, err := l.client.Put(ctx, line.id, b, l.options); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &timeoutError{after: l.timeout, err: err}
		}
		if l.keepGoing && errors.As(err, new(*client.Error)) {
			l.refuse(line, err)
			return nil
		}
		return &lineError{file: line.file, line: line.line, err: err}
	}
	l.stored.Add(1)
	l.rows.Add(b.Count())
	if l.bar != nil {
		l.bar.Add(1)
	}
	return nil
}

func (l *loader) refuse(line loadLine, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost++; len(l.refused) < maxRefused {
		line.rows = rowSet{} // may be large
		l.refused = append(l.refused, refusedLine{line, err})
	}
}

// refusals lists what was refused, nil for nothing.
func (l *loader) refusals() error {
	if l.lost == 0 {
		return nil
	}
	slices.SortFunc(l.refused, func(a, b refusedLine) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %s refused:", l.lost, count(l.total, "vector"))
	for _, r := range l.refused {
		fmt.Fprintf(&text, "\n%s:%d: %s", r.file, r.line, said(r.err))
	}
	if more := l.lost - uint64(len(l.refused)); more > 0 {
		fmt.Fprintf(&text, "\nand %d more", more)
	}
	return errors.New(text.String())
}

// lineError is a failed put, with the line that it is of.
type lineError struct {
	file string
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, said(e.err)) }
func (e *lineError) Unwrap() error { return e.err }

// loadError is a load that stopped.
type loadError struct {
	err           error
	stored, total uint64
}

func (e *loadError) Error() string {
	return fmt.Sprintf("%s\n%d of %s stored; those in flight may or may not be. Loading again is safe", said(e.err), e.stored, count(e.total, "vector"))
}
func (e *loadError) Unwrap() error { return e.err }

// newBar shows progress on a terminal, and nowhere else.
func newBar(w io.Writer, total uint64) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return progressbar.NewOptions64(int64(total),
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription("load"),
		progressbar.OptionSetItsString("vectors"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}
