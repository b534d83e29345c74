package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"starfish/client"
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
  starfish put 8 --word 0xff            # the rows 0 to 7
  starfish put 9 --file rows.txt        # numbers, or a roaring file
  starfish put 10 --rows "" --on 127.0.0.2,127.0.0.3   # a known, empty vector, on these slaves`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	fl := cmd.Flags()
	fl.StringVar(&rows, "rows", "", "the row numbers")
	fl.StringVar(&word, "word", "", "a 64-bit word: bit i is row i")
	fl.StringVar(&file, "file", "", "a file of row numbers, or in the portable roaring format")
	fl.StringVar(&on, "on", "", "pin the vector to these slaves instead of where placement puts it")
	fl.StringVar(&name, "name", "", "name the vector LEVEL=MEMBER (a master of this release refuses names)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := parseID(args[0])
		if err != nil {
			return &usageError{err}
		}
		b, err := vectorFromFlags(cmd, rows, word, file)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("on") && len(splitList(on)) == 0 {
			return usagef("--on: %q names no slave", on)
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
		w, err := strconv.ParseUint(word, 0, 64)
		if err != nil {
			return nil, usagef("--word: %q is not a 64-bit number", word)
		}
		return vector.FromWord(w), nil
	case cmd.Flags().Changed("file"):
		return readVectorFile(file)
	}
	list, err := parseRows(rows)
	if err != nil {
		return nil, usagef("--rows: %w", err)
	}
	return vector.New(list...), nil
}

func newDelete(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete vectors",
		Long: `delete makes vectors unknown again: a range passes over them, and P: of one is
"no such vector". It stops at the first that fails.`,
		Example: `  starfish delete 7
  starfish delete 8 9 10`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids := make([]uint64, len(args))
			for i, a := range args {
				var err error
				if ids[i], err = parseID(a); err != nil {
					return &usageError{err}
				}
			}
			return g.withMaster(cmd, func(_ context.Context, c *client.Client) error {
				for _, id := range ids {
					ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
					rev, err := c.Delete(ctx, id)
					cancel()
					if err != nil {
						return err
					}
					fmt.Fprintf(cmd.OutOrStdout(), "deleted %d, revision %d\n", id, rev)
				}
				return nil
			})
		},
	}
}
