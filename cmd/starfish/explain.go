package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/structs"
)

func newExplain(g *globals) *cobra.Command {
	var q queryFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain TEXT",
		Short: "Show which slave each vector of a query is retrieved from, and why",
		Long: `explain plans a query without running it. For each vector it shows the slave it
is retrieved from and why that one:

  only holder      no other slave can serve it
  priority         the lowest priority number among its holders
  fewest members   no holder has a priority; this one holds the fewest vectors
  random           several holders were equal, this one was drawn
  failover         the preferred holder does not answer
  masked           the preferred holder is masked

Chance is drawn once a query: --seed replays it.`,
		Example: `  starfish explain 'R:0-3&10-14'
  starfish explain P:7 --json
  starfish explain 'R:*' --seed 42`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	q.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := q.allow(cmd, g); err != nil {
			return err
		}
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			plan, err := c.Explain(ctx, args[0], client.QueryOptions{Seed: q.seed, Deadline: q.deadline})
			if err != nil {
				return &queryError{args[0], err}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(explainJSON(&plan))
			}
			return printPlan(cmd.OutOrStdout(), &plan)
		})
	}
	return cmd
}

// word is a constant of structs.x as people read it: the tag without its
// prefix, in lower case.
func word(tag fmt.Stringer, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(tag.String(), prefix)), "_", " ")
}

func reason(r structs.RouteReason) string { return word(r, "ROUTE_") }

type explainedMember struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	From   string `json:"from"`
	Reason string `json:"reason"`
}

type explainedRange struct {
	Vectors  uint64 `json:"vectors"`
	Machines uint32 `json:"machines"`
	Strategy string `json:"strategy"`
	Why      string `json:"why"`
}

type explained struct {
	Members     []explainedMember `json:"members"`
	Coordinator string            `json:"coordinator"`
	Seed        string            `json:"seed"`
	Ranges      []explainedRange  `json:"ranges"`
}

func explainJSON(p *structs.Explanation) explained {
	e := explained{
		Members:     []explainedMember{},
		Coordinator: string(p.Coordinator),
		Seed:        strconv.FormatUint(p.Seed, 10),
		Ranges:      []explainedRange{},
	}
	for _, r := range p.Ranges {
		e.Ranges = append(e.Ranges, explainedRange{r.Vectors, r.Machines, word(r.Strategy, "RANGE_"), r.Why})
	}
	for _, m := range p.Members {
		e.Members = append(e.Members, explainedMember{
			ID: strconv.FormatUint(m.Id, 10), Name: m.Name, From: string(m.From), Reason: reason(m.Reason),
		})
	}
	return e
}

func printPlan(w io.Writer, p *structs.Explanation) error {
	if len(p.Members) == 0 {
		fmt.Fprintln(w, "no vectors: the answer is empty")
	} else {
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "VECTOR\tRETRIEVED FROM\tWHY")
		for _, m := range p.Members {
			fmt.Fprintf(t, "%s\t%s\t%s\n", vectorName(m.Id, m.Name), m.From, reason(m.Reason))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for i, r := range p.Ranges {
		how := fmt.Sprintf("range %d: %s on %s", i+1, count(r.Vectors, "vector"), count(uint64(r.Machines), "machine"))
		if r.Why != "" {
			how += fmt.Sprintf(", %s: %s", word(r.Strategy, "RANGE_"), r.Why)
		}
		fmt.Fprintln(w, how)
	}
	if p.Coordinator != "" {
		fmt.Fprintf(w, "coordinator %s\n", p.Coordinator)
	}
	_, err := fmt.Fprintf(w, "seed %d\n", p.Seed)
	return err
}

// vectorName writes an id, with its name where it has one.
func vectorName(id uint64, name string) string {
	if name == "" {
		return strconv.FormatUint(id, 10)
	}
	return fmt.Sprintf("%d (%s)", id, name)
}
