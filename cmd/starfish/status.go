package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/cmd/internal/number"
	"starfish/structs"
)

func newStatus(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the slaves and the state of the cluster",
		Long: `status shows each slave with its state (joining, serving, down), its priority
and how many vectors it holds; and for the cluster how many vectors are known,
under-replicated (fewer live copies than wanted) and unavailable (no live copy).

Missing are vectors that a slave should have and has not; set aside are those
that it has and the cluster does not know: they are kept, and never served.`,
		Example: `  starfish status
  starfish status --json`,
		Args: usageArgs(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			st, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(statusJSON(&st))
			}
			return printStatus(cmd.OutOrStdout(), &st)
		})
	}
	return cmd
}

// slaveJSON and clusterJSON only ever get more members: scripts read them.
type slaveJSON struct {
	Addr     string `json:"addr"`
	State    string `json:"state"`
	Priority *int32 `json:"priority"`
	Members  uint64 `json:"members"`
	Missing  uint64 `json:"missing"`
	SetAside uint64 `json:"set_aside"`
	Protocol uint32 `json:"protocol"`
	Problem  string `json:"problem"`
}

type clusterJSON struct {
	Slaves          []slaveJSON `json:"slaves"`
	Epoch           uint64      `json:"epoch"`
	Vectors         uint64      `json:"vectors"`
	Replicas        uint32      `json:"replicas"`
	UnderReplicated uint64      `json:"under_replicated"`
	Unavailable     uint64      `json:"unavailable"`
	Pending         uint64      `json:"pending"`
	Release         string      `json:"release"`
}

func statusJSON(st *structs.ClusterStatus) clusterJSON {
	c := clusterJSON{
		Slaves: []slaveJSON{}, Epoch: st.Epoch, Vectors: st.Vectors, Replicas: st.Replicas,
		UnderReplicated: st.UnderReplicated, Unavailable: st.Unavailable, Pending: st.Pending, Release: st.Release,
	}
	for _, s := range st.Slaves {
		c.Slaves = append(c.Slaves, slaveJSON{
			Addr: string(s.Addr), State: word(s.State, "SLAVE_"), Priority: s.Priority, Members: s.Members,
			Missing: s.Missing, SetAside: s.SetAside, Protocol: s.Protocol, Problem: s.Problem,
		})
	}
	return c
}

func printStatus(w io.Writer, st *structs.ClusterStatus) error {
	if len(st.Slaves) == 0 {
		fmt.Fprintln(w, "no slaves: start one with bin/slave --master HOST")
	} else {
		var table bytes.Buffer
		t := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "SLAVE\tSTATE\tPRIORITY\tMEMBERS\tMISSING\tSET ASIDE\tREMARK")
		for _, s := range st.Slaves {
			priority, remark := "-", printable(s.Problem)
			if s.Priority != nil {
				priority = strconv.Itoa(int(*s.Priority))
			}
			if s.Protocol == 1 {
				remark = strings.TrimSuffix("C handler, read-only; "+remark, "; ")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n",
				s.Addr, word(s.State, "SLAVE_"), priority, s.Members, s.Missing, s.SetAside, remark)
		}
		t.Flush() // into memory: it cannot fail
		for line := range strings.Lines(table.String()) {
			fmt.Fprintln(w, strings.TrimRight(line, " \n")) // most remarks are empty
		}
	}
	_, err := fmt.Fprintf(w, "%s, %d wanted of each; %d under-replicated, %d unavailable, %d with an unfinished write\nepoch %d, master %s\n",
		count(st.Vectors, "vector"), st.Replicas, st.UnderReplicated, st.Unavailable, st.Pending, st.Epoch, st.Release)
	return err
}

func newMembers(g *globals) *cobra.Command {
	var asJSON bool
	var from, limit uint64
	cmd := &cobra.Command{
		Use:   "members",
		Short: "List the vectors and the slaves that hold each",
		Long:  `members lists every known vector in ascending order with the slaves that hold it.`,
		Example: `  starfish members
  starfish members --from 1000 --limit 50
  starfish members --json`,
		Args: usageArgs(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	number.Var(cmd.Flags(), &from, "from", 0, "start at this id")
	number.Var(cmd.Flags(), &limit, "limit", 0, "list at most so many (default all)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return g.withMaster(cmd, func(ctx context.Context, c *client.Client) error {
			bw := bufio.NewWriter(cmd.OutOrStdout())
			p := memberPrinter{w: bw, json: asJSON}
			p.begin()
			err := c.Members(ctx, from, func(m structs.Member) bool {
				p.member(&m)
				return limit == 0 || p.n < limit
			})
			if err != nil {
				bw.Flush()
				return err
			}
			p.end()
			return bw.Flush()
		})
	}
	return cmd
}

// memberPrinter writes members as they come; errors stay in w until Flush.
type memberPrinter struct {
	w    *bufio.Writer
	json bool
	n    uint64
}

func (p *memberPrinter) begin() {
	if p.json {
		p.w.WriteString(`{"members":[`)
	}
}

func (p *memberPrinter) member(m *structs.Member) {
	p.n++
	holders := make([]string, len(m.Holders))
	for i, h := range m.Holders {
		holders[i] = string(h)
	}
	if !p.json {
		fmt.Fprintf(p.w, "%s\t%s", vectorName(m.Id, m.Name), strings.Join(holders, " "))
		if m.Pending {
			p.w.WriteString("\tunfinished write")
		}
		p.w.WriteByte('\n')
		return
	}
	if p.n > 1 {
		p.w.WriteByte(',')
	}
	// Strings and numbers alone: this cannot fail.
	b, _ := json.Marshal(struct {
		ID      string   `json:"id"`
		Name    string   `json:"name"`
		Holders []string `json:"holders"`
		Bytes   uint64   `json:"bytes"`
		Pending bool     `json:"pending"`
	}{strconv.FormatUint(m.Id, 10), m.Name, holders, m.Bytes, m.Pending})
	p.w.Write(b)
}

func (p *memberPrinter) end() {
	switch {
	case p.json:
		p.w.WriteString("]}\n")
	case p.n == 0:
		p.w.WriteString("no vectors: store one with 'starfish put' or 'starfish load'\n")
	}
}
