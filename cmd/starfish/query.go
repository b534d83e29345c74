package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/cmd/internal/number"
	"starfish/vector"
)

// firstRows is how many rows a query prints by default.
const firstRows = 20

// queryFlags are what query and explain have in common.
type queryFlags struct {
	seed     uint64
	deadline time.Duration
}

func (q *queryFlags) add(cmd *cobra.Command) {
	number.Var(cmd.Flags(), &q.seed, "seed", 0, "replay the choice among equal slaves of the query with this seed")
	cmd.Flags().DurationVar(&q.deadline, "deadline", 0, "how long the cluster may take (default 20s)")
}

// allow makes the time-out no shorter than the deadline that was asked for.
func (q *queryFlags) allow(cmd *cobra.Command, g *globals) error {
	if q.deadline < 0 {
		return usagef("--deadline: %v is in the past", q.deadline)
	}
	if !cmd.Flags().Changed("timeout") {
		g.timeout = max(g.timeout, q.deadline+5*time.Second)
	}
	return nil
}

func newQuery(g *globals) *cobra.Command {
	var (
		q                          queryFlags
		countOnly, allRows, asJSON bool
		verbose                    bool
		format                     string
		first, limit               uint64
	)
	cmd := &cobra.Command{
		Use:   "query TEXT",
		Short: "Run a query",
		Long: `query runs a query and prints how many rows the answer has and the first of
them. The answer is complete, or the command fails and says what is missing.`,
		Example: `  starfish query P:7
  starfish query 'R:0-3&10-14'
  starfish query 'R:*' --count
  starfish query 'R:{1,4,9}' --rows | head
  starfish query 'R:0-99' --json --first-row 1000 --max-rows 50`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	q.add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&countOnly, "count", false, "print the count alone")
	fl.BoolVar(&allRows, "rows", false, "print all rows, one a line")
	fl.BoolVar(&asJSON, "json", false, `print {"count":N,"rows":[...],"seed":"N"}`)
	fl.BoolVarP(&verbose, "verbose", "v", false, "print the seed too, which --seed replays")
	fl.StringVar(&format, "format", "roaring", "how rows travel: roaring or words")
	number.Var(fl, &first, "first-row", 0, "a page of the answer: rows from here on")
	number.Var(fl, &limit, "max-rows", 0, "at most so many rows (default all)")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"roaring", "words"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format != "roaring" && format != "words" {
			return usagef("--format: %q is neither roaring nor words", format)
		}
		if countOnly && allRows {
			return usagef("--count and --rows exclude each other")
		}
		if err := q.allow(cmd, g); err != nil {
			return err
		}
		o := client.QueryOptions{
			CountOnly: countOnly, Words: format == "words",
			Deadline: q.deadline, Seed: q.seed, FirstRow: first, MaxRows: limit,
		}
		if !countOnly && !allRows && !asJSON && limit == 0 {
			o.MaxRows = firstRows
		}
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			a, err := c.Query(ctx, args[0], o)
			if err != nil {
				return &queryError{args[0], err}
			}
			if err := printAnswer(cmd.OutOrStdout(), a, first, allRows, asJSON); err != nil || asJSON || !verbose {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "seed %d\n", a.Seed)
			return err
		})
	}
	return cmd
}

func printAnswer(w io.Writer, a client.Answer, first uint64, allRows, asJSON bool) error {
	switch {
	case asJSON:
		return printJSONRows(w, a.Count, a.Rows, fmt.Sprintf(`,"seed":"%d"`, a.Seed))
	case a.Rows == nil:
		_, err := fmt.Fprintln(w, a.Count)
		return err
	case allRows:
		return printRows(w, a.Rows, "\n")
	}
	fmt.Fprintln(w, count(a.Count, "row"))
	shown := a.Rows.Count()
	if shown == 0 {
		return nil
	}
	if err := printRows(w, a.Rows, " "); err != nil {
		return err
	}
	if first == 0 && shown < a.Count {
		fmt.Fprintf(w, "... and %d more: --rows prints all\n", a.Count-shown)
	}
	return nil
}

// eachRow calls f for every row in ascending order, some at a time, so that a
// large vector is not copied whole; an error of f ends it.
func eachRow(b *vector.Bitmap, f func(row uint32) error) error {
	const step = 1 << 16
	for next := uint64(0); next <= 1<<32-1; {
		rows := b.Rows(next, step)
		if len(rows) == 0 {
			return nil
		}
		for _, r := range rows {
			if err := f(r); err != nil {
				return err
			}
		}
		next = uint64(rows[len(rows)-1]) + 1
	}
	return nil
}

// writeRows writes all rows with sep between them.
func writeRows(bw *bufio.Writer, b *vector.Bitmap, sep string) error {
	var buf []byte
	first := true
	return eachRow(b, func(row uint32) error {
		buf = buf[:0]
		if !first {
			buf = append(buf, sep...)
		}
		first = false
		_, err := bw.Write(strconv.AppendUint(buf, uint64(row), 10))
		return err
	})
}

// printRows writes all rows with sep between them and a newline at the end.
func printRows(w io.Writer, b *vector.Bitmap, sep string) error {
	if b.IsEmpty() {
		return nil
	}
	bw := bufio.NewWriter(w)
	if err := writeRows(bw, b, sep); err != nil {
		return err
	}
	bw.WriteByte('\n') // an error stays in bw
	return bw.Flush()
}

// printJSONRows writes {"count":N,"rows":[...]}, without rows where only the
// count was asked for; more are further members.
func printJSONRows(w io.Writer, count uint64, b *vector.Bitmap, more string) error {
	bw := bufio.NewWriter(w)
	fmt.Fprintf(bw, `{"count":%d`, count)
	if b != nil {
		bw.WriteString(`,"rows":[`)
		if err := writeRows(bw, b, ","); err != nil {
			return err
		}
		bw.WriteByte(']')
	}
	fmt.Fprintf(bw, "%s}\n", more)
	return bw.Flush()
}
