package master

import (
	"context"

	"starfish/query"
	"starfish/structs"
)

// explain tells how the query would run now, and runs nothing.
func (m *Master) explain(ctx context.Context, req structs.QueryRequest) structs.ExplainResponse {
	q, err := query.Parse(string(req.Text))
	if err != nil {
		return structs.ExplainResponse{Status: structs.QUERY_SYNTAX, Failure: syntaxFailure(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, deadlineOf(req))
	defer cancel()
	r := m.newRun(q, req)
	r.explain = true
	plan, snap, release, failed := r.plan(ctx)
	if failed != nil {
		return structs.ExplainResponse{Status: failed.Status, Failure: failed.Failure}
	}
	defer release()
	out := structs.Explanation{Coordinator: structs.MachineName(plan.Coordinator), Seed: r.seed}
	for _, c := range plan.Members {
		mem := structs.ExplainedMember{Id: c.ID, From: structs.MachineName(c.From), Reason: c.Reason}
		if known, ok := snap.Member(c.ID); ok {
			mem.Name = known.Name
		}
		out.Members = append(out.Members, mem)
	}
	for _, rg := range plan.Ranges {
		out.Ranges = append(out.Ranges, structs.ExplainedRange{
			Vectors:  rg.Vectors,
			Machines: uint32(len(rg.Legs)),
			Strategy: rg.Strategy,
			Why:      rg.Why,
		})
	}
	return structs.ExplainResponse{Status: structs.QUERY_OK, Plan: out}
}
