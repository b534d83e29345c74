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
	cmd.Flags().Uint64Var(&q.seed, "seed", 0, "replay the choice among equal slaves of the query with this seed")
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
	fl.BoolVar(&asJSON, "json", false, `print {"count":N,"rows":[...]}`)
	fl.StringVar(&format, "format", "roaring", "how rows travel: roaring or words")
	fl.Uint64Var(&first, "first-row", 0, "a page of the answer: rows from here on")
	fl.Uint64Var(&limit, "max-rows", 0, "at most so many rows (default all)")
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
			return printAnswer(cmd.OutOrStdout(), a, first, allRows, asJSON)
		})
	}
	return cmd
}

func printAnswer(w io.Writer, a client.Answer, first uint64, allRows, asJSON bool) error {
	switch {
	case asJSON:
		return printJSONRows(w, a.Count, a.Rows)
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
// large vector is not copied whole.
func eachRow(b *vector.Bitmap, f func(row uint32)) {
	const step = 1 << 16
	for next := uint64(0); next <= 1<<32-1; {
		rows := b.Rows(next, step)
		if len(rows) == 0 {
			return
		}
		for _, r := range rows {
			f(r)
		}
		next = uint64(rows[len(rows)-1]) + 1
	}
}

// printRows writes all rows with sep between them and a newline at the end.
func printRows(w io.Writer, b *vector.Bitmap, sep string) error {
	bw := bufio.NewWriter(w)
	var buf []byte
	n := 0
	eachRow(b, func(row uint32) {
		buf = buf[:0]
		if n++; n > 1 {
			buf = append(buf, sep...)
		}
		bw.Write(strconv.AppendUint(buf, uint64(row), 10)) // the first error stays in bw
	})
	if n > 0 {
		bw.WriteByte('\n')
	}
	return bw.Flush()
}

// printJSONRows writes {"count":N,"rows":[...]}, without rows where only the
// count was asked for.
func printJSONRows(w io.Writer, count uint64, b *vector.Bitmap) error {
	if b == nil {
		_, err := fmt.Fprintf(w, "{\"count\":%d}\n", count)
		return err
	}
	bw := bufio.NewWriter(w)
	fmt.Fprintf(bw, `{"count":%d,"rows":[`, count)
	var buf []byte
	n := 0
	eachRow(b, func(row uint32) {
		buf = buf[:0]
		if n++; n > 1 {
			buf = append(buf, ',')
		}
		bw.Write(strconv.AppendUint(buf, uint64(row), 10))
	})
	bw.WriteString("]}\n")
	return bw.Flush()
}
