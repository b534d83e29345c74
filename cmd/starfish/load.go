package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"starfish/client"
	"starfish/vector"
)

func newLoad(g *globals) *cobra.Command {
	var on string
	var parallel int
	cmd := &cobra.Command{
		Use:   "load FILE...",
		Short: "Store many vectors",
		Long: `load stores the vectors of index files. A line is one vector:

  # periods
  1: 0 1          the rows 0 and 1
  2: 2 3 4 5 6 7 8 9
  3:              known, and empty

Rows are parted by spaces or commas; # begins a comment. All files are checked
before anything is stored, and bad lines are reported with file and line. The
first put that fails stops the load and says how many vectors were stored;
loading again is safe. The file - is standard input.`,
		Example: `  starfish load periods.idx blocks.idx
  starfish load --on 127.0.0.2,127.0.0.3 hot.idx
  printf '7: 1 5 9\n' | starfish load -`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
	}
	cmd.Flags().StringVar(&on, "on", "", "pin the vectors to these slaves instead of where placement puts them")
	cmd.Flags().IntVar(&parallel, "parallel", 256, "puts in flight at a time")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if parallel < 1 {
			return usagef("--parallel: %d is less than 1", parallel)
		}
		files, done, err := openSources(args, cmd.InOrStdin())
		defer done()
		if err != nil {
			return err
		}
		total, err := checkFiles(files)
		if err != nil {
			return fmt.Errorf("nothing was stored:\n%w", err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
		c, err := client.Dial(ctx, g.host())
		cancel()
		if err != nil {
			return err
		}
		defer c.Close()
		l := loader{client: c, timeout: g.timeout, options: client.PutOptions{Holders: splitList(on)}}
		l.bar = newBar(cmd.ErrOrStderr(), total)
		began := time.Now()
		if err := l.run(cmd.Context(), files, parallel); err != nil {
			return fmt.Errorf("%w\n%d of %s stored; those in flight may or may not be. Loading again is safe", err, l.stored.Load(), count(total, "vector"))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "loaded %s, %s, in %.1fs\n", count(l.stored.Load(), "vector"), count(l.rows.Load(), "row"), time.Since(began).Seconds())
		return nil
	}
	return cmd
}

// maxInFlight bounds the row numbers of the puts in flight: 256 MiB of them.
const maxInFlight = 64 << 20

// loader puts the vectors of files, many at a time over one connection.
type loader struct {
	client  *client.Client
	timeout time.Duration // of one put
	options client.PutOptions
	bar     *progressbar.ProgressBar // nil: none is shown

	stored, rows atomic.Uint64
}

func (l *loader) run(ctx context.Context, files []source, parallel int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	room := semaphore.NewWeighted(maxInFlight)
	put := func(line loadLine) error {
		size := int64(min(len(line.rows), maxInFlight))
		if err := room.Acquire(ctx, size); err != nil {
			return err
		}
		group.Go(func() error {
			defer room.Release(size)
			return l.put(ctx, line)
		})
		return nil
	}
	var readErr error
	for _, src := range files {
		if readErr = eachLine(src, put, func(err error) error { return err }); readErr != nil {
			break
		}
	}
	err := group.Wait() // the first failed put: what the reader saw came of it
	if l.bar != nil {
		l.bar.Exit()
	}
	if err == nil {
		err = readErr
	}
	return err
}

func (l *loader) put(ctx context.Context, line loadLine) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	b := vector.New(line.rows...)
	if _, err := l.client.Put(ctx, line.id, b, l.options); err != nil {
		return fmt.Errorf("%s:%d: %w", line.file, line.line, err)
	}
	l.stored.Add(1)
	l.rows.Add(b.Count())
	if l.bar != nil {
		l.bar.Add(1)
	}
	return nil
}

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
