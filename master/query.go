package master

import (
	"time"

	"starfish/catalog"
	"starfish/fault"
	"starfish/fault/wire"
	"starfish/master/delegate"
	"starfish/master/replica"
	"starfish/peer"
	"starfish/router"
	"starfish/rows"
	"starfish/structs"
)

// This file is the messages of queries and writes, and what they stand for.

func queryOf(req structs.QueryRequest) delegate.Request {
	return delegate.Request{
		Text:     string(req.Text),
		Deadline: time.Duration(req.DeadlineMs) * time.Millisecond,
		Seed:     req.Seed,
		Format:   req.Format,
		FirstRow: req.FirstRow,
		MaxRows:  req.MaxRows,
	}
}

func queryResponse(a delegate.Answer, err error) structs.QueryResponse {
	if err != nil {
		return structs.NewQueryResponseFailure(wire.Encode(err))
	}
	return structs.QueryResponse{Answer: structs.QueryAnswer{Count: a.Count, Rows: structs.RowBitmap(a.Rows), Seed: a.Seed}}
}

// explanation is a plan, with the names that the vectors had when it was made.
func explanation(plan *router.Plan, snap *catalog.Snapshot) structs.Explanation {
	out := structs.Explanation{Coordinator: structs.MachineName(plan.Coordinator), Seed: plan.Seed}
	for _, c := range plan.Members {
		mem := structs.ExplainedMember{Id: c.ID, From: structs.MachineName(c.From), Reason: routeReason(c.Reason)}
		if known, ok := snap.Member(c.ID); ok {
			mem.Name = known.Name
		}
		out.Members = append(out.Members, mem)
	}
	for _, rg := range plan.Ranges {
		out.Ranges = append(out.Ranges, structs.ExplainedRange{
			Vectors:  rg.Vectors,
			Machines: uint32(len(rg.Legs)),
			Strategy: rangeStrategy(rg.Strategy),
			Why:      rg.Why,
		})
	}
	return out
}

// The router's words have the numbers of structs.x (TestRouterWords).
func routeReason(r router.Reason) structs.RouteReason       { return structs.RouteReason(r) }
func rangeStrategy(s router.Strategy) structs.RangeStrategy { return structs.RangeStrategy(s) }

// putOf reads a put. Its rows are decoded, since they are not trusted, and written
// again in the one format in which they are sent to the slaves and kept.
func putOf(req structs.PutRequest) (replica.Put, error) {
	refuse := func(kind fault.Kind, format string, args ...any) (replica.Put, error) {
		return replica.Put{}, fault.New(kind, format, args...).About(1, req.Id)
	}
	if req.Name != "" {
		return refuse(fault.ErrFailed, "names are not supported yet: put the vector by its id alone")
	}
	if req.Rows.Format == structs.BITMAP_NONE {
		return refuse(fault.ErrFailed, "put of %d has no rows: send them as words or roaring; an empty vector is an empty bitmap", req.Id)
	}
	b, err := rows.Decode(&req.Rows)
	if err != nil {
		return refuse(fault.ErrFailed, "put of %d: the rows are not a valid bitmap: %v", req.Id, err)
	}
	body, err := rows.Encode(b, structs.BITMAP_ROARING)
	if err != nil {
		return refuse(fault.ErrTooLarge, "put of %d: %v", req.Id, err)
	}
	put := replica.Put{ID: req.Id, Rows: peer.Rows(body)}
	for _, h := range req.Holders {
		put.Holders = append(put.Holders, string(h))
	}
	return put, nil
}

func putResponse(revision uint64, err error) structs.PutResponse {
	if err != nil {
		return structs.NewPutResponseFailure(wire.Encode(err))
	}
	return structs.PutResponse{Revision: revision}
}

// tooLarge is the error of a result of so many bytes that its transport cannot
// carry, nil if it can.
func tooLarge(datagram bool, size int) error {
	switch {
	case datagram && size+replyHeader > maxUDP:
		return fault.New(fault.ErrTooLarge, "an answer of %d bytes does not fit in a datagram: use tcp, or pages", size)
	case size+replyHeader > maxRecord:
		return fault.New(fault.ErrTooLarge, "an answer of %d bytes is above the record limit of %d: use roaring, or pages", size, maxRecord)
	}
	return nil
}
