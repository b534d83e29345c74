package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/cmd/internal/number"
	"starfish/structs"
	"starfish/vector"
)

func newPut(g *globals) *cobra.Command {
	var rows, word, file, on, name string
	cmd := &cobra.Command{
		Use:   "put ID (--rows N,N,... | --word W | --file FILE)",
		Short: "Store one vector",
		Long: `put stores the vector ID, replacing what it was. It returns when every slave
that shall hold it has it on disk. After an error the put may or may not have
happened; putting again settles it.`,
		Example: `  starfish put 7 --rows 1,5,9           # three rows
  starfish put 7 --rows 1-5,9           # six rows
  starfish put 8 --word 0xff            # the rows 0 to 7
  starfish put 9 --file rows.txt        # numbers and ranges, or a roaring file
  sort -n rows | starfish put 9 --file -
  starfish put 10 --rows "" --on 127.0.0.2,127.0.0.3   # a known, empty vector, on these slaves`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	fl := cmd.Flags()
	fl.StringVar(&rows, "rows", "", "the row numbers, and ranges of them")
	fl.StringVar(&word, "word", "", "a 64-bit word: bit i is row i")
	fl.StringVar(&file, "file", "", "a file of row numbers, or in the portable roaring format; - is standard input")
	fl.StringVar(&on, "on", "", "pin the vector to these slaves instead of where placement puts it")
	fl.StringVar(&name, "name", "", "name the vector LEVEL=MEMBER (a master of this release refuses names)")
	_ = fl.MarkHidden("name") // until a master takes them; the flag is there, so no error
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := parseID(args[0])
		if err != nil {
			return &usageError{err}
		}
		b, err := vectorFromFlags(cmd, rows, word, file)
		if err != nil {
			return err
		}
		if err := checkOn(cmd, on); err != nil {
			return err
		}
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			rev, err := c.Put(ctx, id, b, client.PutOptions{Name: name, Holders: splitList(on)})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "stored %d: %s, revision %d\n", id, count(b.Count(), "row"), rev)
			return nil
		})
	}
	return cmd
}

func vectorFromFlags(cmd *cobra.Command, rows, word, file string) (*vector.Bitmap, error) {
	given := 0
	for _, f := range []string{"rows", "word", "file"} {
		if cmd.Flags().Changed(f) {
			given++
		}
	}
	if given != 1 {
		return nil, usagef("put takes one of --rows, --word and --file")
	}
	switch {
	case cmd.Flags().Changed("word"):
		w, err := number.Word(word)
		if err != nil {
			return nil, usagef("--word: %w", err)
		}
		return vector.FromWord(w), nil
	case cmd.Flags().Changed("file") && file == "":
		return nil, usagef(`--file: "" is no file`)
	case cmd.Flags().Changed("file"):
		return readVectorFile(cmd.Context(), file, cmd.InOrStdin())
	}
	var set rowSet
	if err := set.parse(rows); err != nil {
		return nil, usagef("--rows: %w", err)
	}
	return set.bitmap(), nil
}

// checkOn refuses an --on without a slave, which would pin to nothing.
func checkOn(cmd *cobra.Command, on string) error {
	if cmd.Flags().Changed("on") && len(splitList(on)) == 0 {
		return usagef("--on: %q names no slave", on)
	}
	return nil
}

func newDelete(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete vectors",
		Long: `delete makes vectors unknown again: a range passes over them, and P: of one is
"no such vector". An id may be a range, 1-5: those of it that are known are
deleted. It stops at the first that fails.`,
		Example: `  starfish delete 7
  starfish delete 8 9 10
  starfish delete 100-199`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			spans, err := parseIDs(args)
			if err != nil {
				return &usageError{err}
			}
			return g.withMaster(cmd, func(_ context.Context, c *client.Client) error {
				for _, span := range spans {
					if err := g.deleteSpan(cmd, c, span); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// deleteSpan deletes the known ids of a range, or the one id that must be known.
func (g *globals) deleteSpan(cmd *cobra.Command, c *client.Client, span structs.IdRange) error {
	next := span.First
	if span.First == span.Last {
		return g.deleteOne(cmd, c, next)
	}
	for {
		ids, err := g.knownIDs(cmd, c, structs.IdRange{First: next, Last: span.Last})
		if err != nil {
			return err
		}
		if len(ids) == 0 && next == span.First {
			fmt.Fprintf(cmd.OutOrStdout(), "no vectors in %d-%d\n", span.First, span.Last)
		}
		for _, id := range ids {
			if err := g.deleteOne(cmd, c, id); err != nil {
				return err
			}
		}
		if len(ids) < deleteAtOnce || ids[len(ids)-1] == math.MaxUint64 {
			return nil
		}
		next = ids[len(ids)-1] + 1
	}
}

// deleteAtOnce is how many ids of a range are looked up at a time.
const deleteAtOnce = 10_000

// knownIDs are the first of those in the range.
func (g *globals) knownIDs(cmd *cobra.Command, c *client.Client, span structs.IdRange) (ids []uint64, err error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	err = c.Members(ctx, span.First, func(m structs.Member) bool {
		if m.Id <= span.Last {
			ids = append(ids, m.Id)
		}
		return m.Id < span.Last && len(ids) < deleteAtOnce
	})
	return ids, g.timedOut(ctx, err)
}

func (g *globals) deleteOne(cmd *cobra.Command, c *client.Client, id uint64) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	rev, err := c.Delete(ctx, id)
	if err != nil {
		return g.timedOut(ctx, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "deleted %d, revision %d\n", id, rev)
	return nil
}
