package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/structs"
)

func newRemove(g *globals) *cobra.Command {
	var req structs.RemoveChange
	cmd := &cobra.Command{
		Use:   "remove ADDR",
		Short: "Take a C handler, or a slave that never served, out of the cluster",
		Long: `remove takes a machine out of the cluster: a C handler that was joined with --v1,
or a slave that never held anything, as one that was joined by a mistake. What
others hold too stays with them. What it alone holds is named, and is forgotten
only with --forget.

A slave of ours that has served cannot be removed yet: what is on it would have
to be copied to others first (--now: do not).`,
		Example: `  starfish remove 10.0.0.7
  starfish remove 10.0.0.7 --forget`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVar(&req.Forget, "forget", false, "also where vectors are forgotten with it")
	cmd.Flags().BoolVar(&req.Now, "now", false, "do not copy elsewhere first what others hold too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Addr = structs.MachineName(args[0])
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			a, err := c.Remove(ctx, req)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", args[0])
			if a.IdsTotal > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "forgotten with it: %s, %s\n", count(a.IdsTotal, "vector"), spanList(a.Ids, a.IdsTotal))
			}
			return nil
		})
	}
	return cmd
}
