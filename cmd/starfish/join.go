package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/cmd/internal/number"
	"starfish/structs"
)

func newJoin(g *globals) *cobra.Command {
	var v1 bool
	var ids string
	var priority int32
	cmd := &cobra.Command{
		Use:   "join ADDR",
		Short: "Make a running slave a member of the cluster",
		Long: `join tells the master of a slave. bin/slave --master HOST does so by itself; it
takes this command for a C program that serves HANDLE_QUERY of version 1
(--v1). Such a slave is static and read-only: --ids says which vectors it
holds. ADDR is what clnt_create takes, a name or an address without a port.`,
		Example: `  starfish join 10.0.0.7 --v1 --ids 0-99,200
  starfish join 127.0.0.4 --priority 1`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVar(&v1, "v1", false, "a C handler: SLAVE_PROG version 1 alone")
	cmd.Flags().StringVar(&ids, "ids", "", "with --v1, the vectors it holds: 0-99,200")
	number.Var(cmd.Flags(), &priority, "priority", 0, "the lowest number serves first (default: unset)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := structs.JoinRequest{Addr: structs.MachineName(args[0]), Protocol: structs.SLAVE_V2}
		if cmd.Flags().Changed("priority") {
			req.Priority = &priority
		}
		if v1 != (ids != "") {
			return usagef("--v1 and --ids go together: a C handler cannot be asked what it holds")
		}
		if v1 {
			req.Protocol = structs.SLAVE_V1
			var err error
			if req.Ids, err = parseSpans(ids); err != nil {
				return usagef("--ids: %w", err)
			}
		}
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			a, err := c.Join(ctx, req)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "joined %s: the cluster has %s\n", args[0], count(uint64(len(a.Machines)), "slave"))
			problem, err := lookAt(ctx, c, req.Addr)
			if err == nil && problem != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "it is not serving: %s\n", problem)
			}
			return err
		})
	}
	return cmd
}

// joinPatience is how long the command waits to hear how the master finds a slave.
const joinPatience = 5 * time.Second

// lookAt waits until the master has looked at the slave, and tells what is wrong
// with it; "" where it serves, or that is not known yet.
func lookAt(ctx context.Context, c *client.Client, addr structs.MachineName) (problem string, err error) {
	patience := time.After(joinPatience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		st, err := c.Status(ctx)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(st.Slaves, func(s structs.SlaveStatus) bool { return s.Addr == addr })
		if i >= 0 && (st.Slaves[i].State != structs.SLAVE_JOINING || st.Slaves[i].Problem != "") {
			return st.Slaves[i].Problem, nil
		}
		select {
		case <-tick.C:
		case <-patience:
			return "", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// parseSpans reads "0-99,200" as inclusive spans of ids.
func parseSpans(s string) ([]structs.IdRange, error) {
	var spans []structs.IdRange
	for _, item := range splitList(s) {
		lo, hi, isRange := strings.Cut(item, "-")
		first, err := strconv.ParseUint(strings.TrimSpace(lo), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not an id or a range of ids up to %d", item, uint64(math.MaxUint64))
		}
		last := first
		if isRange {
			if last, err = strconv.ParseUint(strings.TrimSpace(hi), 10, 64); err != nil {
				return nil, fmt.Errorf("%q is not an id or a range of ids up to %d", item, uint64(math.MaxUint64))
			}
		}
		if last < first {
			return nil, fmt.Errorf("%q ends before it begins", item)
		}
		spans = append(spans, structs.IdRange{First: first, Last: last})
	}
	if len(spans) == 0 {
		return nil, fmt.Errorf("%q names no ids", s)
	}
	return spans, nil
}
