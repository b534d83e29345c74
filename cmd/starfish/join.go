package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"starfish/catalog"
	"starfish/client"
	"starfish/cmd/internal/number"
	"starfish/structs"
)

func newJoin(g *globals) *cobra.Command {
	j := joiner{globals: g}
	var v1 bool
	var ids string
	var priority int32
	cmd := &cobra.Command{
		Use:   "join ADDR",
		Short: "Make a running slave a member of the cluster",
		Long: `join tells the master of a slave. bin/slave --master HOST does so by itself; it
takes this command for a C program that serves HANDLE_QUERY of version 1
(--v1). Such a slave is static and read-only: --ids says which vectors it
holds, besides those of an earlier join. ADDR is what clnt_create takes, a name
or an address without a port.

A vector that is known already is compared: where the handler has the same rows
it is one more holder, else the join is refused. With --replace the handler holds
the vectors of --ids and no others, and is their only holder: other copies of
them are deleted. A vector with a C handler among its holders is read-only, until
'starfish remove ADDR'.

A machine that does not answer is refused; --force takes it all the same.`,
		Example: `  starfish join 10.0.0.7 --v1 --ids 0-99,200
  starfish join 10.0.0.7 --v1 --ids 0-99 --replace
  starfish join 127.0.0.4 --priority 1`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	cmd.Flags().BoolVar(&v1, "v1", false, "a C handler: SLAVE_PROG version 1 alone")
	cmd.Flags().StringVar(&ids, "ids", "", "with --v1, the vectors it holds: 0-99,200")
	number.Var(cmd.Flags(), &priority, "priority", 0, "the lowest number serves first (default: unset)")
	cmd.Flags().BoolVar(&j.req.Replace, "replace", false, "with --v1, it holds these alone, and nobody else does")
	cmd.Flags().BoolVar(&j.req.Force, "force", false, "also where it does not answer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		j.req.Addr, j.req.Protocol = structs.MachineName(args[0]), structs.SLAVE_V2
		if cmd.Flags().Changed("priority") {
			j.req.Priority = &priority
		}
		switch {
		case v1 != (ids != ""):
			return usagef("--v1 and --ids go together: a C handler cannot be asked what it holds")
		case j.req.Replace && !v1:
			return usagef("--replace goes with --v1 and --ids: it is for what a C handler holds")
		}
		if v1 {
			j.req.Protocol = structs.SLAVE_V1
			var err error
			if j.req.Ids, err = parseSpans(ids); err != nil {
				return usagef("--ids: %w", err)
			}
		}
		return j.withMaster(cmd, func(_ context.Context, c *client.Client) error { return j.run(cmd, c) })
	}
	return cmd
}

// joiner makes one join, or several where much has to be compared.
type joiner struct {
	*globals
	req structs.JoinRequest
}

func (j *joiner) run(cmd *cobra.Command, c *client.Client) error {
	a, err := j.join(cmd, c)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	name := string(j.req.Addr)
	if a.Addr != j.req.Addr {
		name += ", that is " + string(a.Addr)
	}
	fmt.Fprintf(w, "joined %s: the cluster has %s\n", name, count(uint64(len(a.Machines)), "slave"))
	if a.AddedTotal > 0 {
		fmt.Fprintf(w, "it holds %s more: %s\n", count(a.AddedTotal, "vector"), spanList(a.Added, a.AddedTotal))
	}
	if a.Compared > 0 {
		fmt.Fprintf(w, "%s of them others hold too, with the same rows: read-only until 'starfish remove %s'\n", count(a.Compared, "vector"), a.Addr)
	}
	if a.Taken > 0 {
		fmt.Fprintf(w, "%s taken over from others, whose copies are deleted\n", count(a.Taken, "vector"))
	}
	if a.RemovedTotal > 0 {
		fmt.Fprintf(w, "it does not hold %s any more: %s\n", count(a.RemovedTotal, "vector"), spanList(a.Removed, a.RemovedTotal))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), j.timeout)
	defer cancel()
	problem, err := lookAt(ctx, c, a.Addr)
	if err == nil && problem != "" {
		fmt.Fprintf(w, "it is not serving: %s\n", problem)
	}
	return j.timedOut(ctx, err)
}

// comparedAtOnce is how many known vectors one call has compared: a second or
// two, in which no write of them goes on.
const comparedAtOnce = 1000

// join makes the calls, and adds up their answers.
func (j *joiner) join(cmd *cobra.Command, c *client.Client) (structs.JoinAnswer, error) {
	call := func(ids []structs.IdRange) (structs.JoinAnswer, error) {
		ctx, cancel := context.WithTimeout(cmd.Context(), j.timeout)
		defer cancel()
		req := j.req
		req.Ids = ids
		a, err := c.Join(ctx, req)
		return a, j.timedOut(ctx, err)
	}
	spans := mergeSpans(j.req.Ids)
	if n := catalog.CountIDs(spans); j.req.Replace || n <= comparedAtOnce || n > catalog.MaxStaticIDs {
		return call(j.req.Ids)
	}
	known, err := j.known(cmd.Context(), c, spans)
	if err != nil {
		return structs.JoinAnswer{}, err
	}
	parts := partSpans(spans, known, comparedAtOnce)
	var bar *progressbar.ProgressBar
	if len(parts) > 1 {
		bar = newBar(cmd.ErrOrStderr(), uint64(len(known)))
	}
	if bar != nil {
		bar.Describe("compare")
	}
	var sum structs.JoinAnswer
	for i, part := range parts {
		a, err := call(part)
		if err != nil {
			if bar != nil {
				bar.Exit()
			}
			if sum.AddedTotal > 0 {
				err = fmt.Errorf("%w\n%s before were taken: 'starfish remove %s' undoes that", err, count(sum.AddedTotal, "vector"), j.req.Addr)
			}
			return sum, err
		}
		a.Added = append(sum.Added, a.Added...)
		a.AddedTotal, a.Compared = a.AddedTotal+sum.AddedTotal, a.Compared+sum.Compared
		sum = a
		if bar != nil {
			bar.Set(min((i+1)*comparedAtOnce, len(known)))
		}
	}
	return sum, nil
}

// known are the ids among the spans, which are in order, that others hold.
func (j *joiner) known(ctx context.Context, c *client.Client, spans []catalog.Span) (ids []uint64, err error) {
	left := spans
	err = c.Members(ctx, spans[0].First, func(m structs.Member) bool {
		for len(left) > 0 && left[0].Last < m.Id {
			left = left[1:]
		}
		if len(left) > 0 && left[0].First <= m.Id && !slices.Contains(m.Holders, j.req.Addr) {
			ids = append(ids, m.Id)
		}
		return len(left) > 0
	})
	return ids, err
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
