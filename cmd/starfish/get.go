package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"starfish/client"
)

func newGet(g *globals) *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print a vector, or write it to a file",
		Long: `get prints the rows of one vector, one a line, as 'put --file' reads them.
With --file it writes them in the portable roaring format, which CRoaring and
its kin in other languages read; the file - is standard output.`,
		Example: `  starfish get 7
  starfish get 7 --file seven.roaring
  starfish get 7 --file - | ssh host starfish put 7 --file -`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().StringVar(&file, "file", "", "write the vector here, in the portable roaring format; - is standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, `print {"count":N,"rows":[...]}`)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("file") && file == "" {
			return usagef("--file: \"\" is no file")
		}
		if asJSON && file != "" {
			return usagef("--json and --file exclude each other")
		}
		id, err := parseID(args[0])
		if err != nil {
			return &usageError{err}
		}
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			a, err := c.Query(ctx, fmt.Sprintf("P:%d", id), client.QueryOptions{})
			switch {
			case err != nil:
				return err
			case file == "-":
				_, err := cmd.OutOrStdout().Write(a.Rows.AppendRoaring(nil))
				return err
			case file != "":
				data := a.Rows.AppendRoaring(nil)
				if err := os.WriteFile(file, data, 0o644); err != nil {
					return fmt.Errorf("get %d: %w", id, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: %s, %s\n", file, count(a.Count, "row"), count(uint64(len(data)), "byte"))
				return nil
			case asJSON:
				return printJSONRows(cmd.OutOrStdout(), a.Count, a.Rows, "")
			}
			return printRows(cmd.OutOrStdout(), a.Rows, "\n")
		})
	}
	return cmd
}
