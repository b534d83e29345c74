package master

import (
	"context"
	"fmt"

	"starfish/fault/wire"
	"starfish/rpc"
	"starfish/structs"
)

// maxUDP is the largest reply over UDP, as libtirpc's.
const maxUDP = 8800

// replyHeader is what an accepted RPC reply puts before its result (RFC 5531
// section 9, with an AUTH_NONE verifier).
const replyHeader = 24

// v2 serves MASTER_PROG version 2.
type v2 struct{ m *Master }

var _ structs.MasterProgMasterV2Handler = v2{}

// MasterQuery runs a query.
func (h v2) MasterQuery(ctx context.Context, req structs.QueryRequest) (structs.QueryResponse, error) {
	a, err := h.m.queries.Query(ctx, queryOf(req))
	if err == nil {
		err = tooLarge(overUDP(ctx), len(a.Rows.Roaring)+8*len(a.Rows.Words)+64)
	}
	return queryResponse(a, err), nil
}

func overUDP(ctx context.Context) bool {
	call := rpc.CallFromContext(ctx)
	return call != nil && call.Network == "udp"
}

// MasterPut stores a vector.
func (h v2) MasterPut(ctx context.Context, req structs.PutRequest) (structs.PutResponse, error) {
	if !h.m.may.Allow(ctx) {
		return putResponse(0, h.m.denied(ctx, fmt.Sprint("put ", req.Id))), nil
	}
	put, err := putOf(req)
	if err != nil {
		return putResponse(0, err), nil
	}
	return putResponse(h.m.writes.Put(ctx, put)), nil
}

// MasterDelete makes an id unknown.
func (h v2) MasterDelete(ctx context.Context, id uint64) (structs.PutResponse, error) {
	if !h.m.may.Allow(ctx) {
		return putResponse(0, h.m.denied(ctx, fmt.Sprint("delete ", id))), nil
	}
	return putResponse(h.m.writes.Erase(ctx, id)), nil
}

// MasterExplain tells how a query would run now.
func (h v2) MasterExplain(ctx context.Context, req structs.QueryRequest) (structs.ExplainResponse, error) {
	plan, snap, err := h.m.queries.Explain(ctx, queryOf(req))
	if err != nil {
		return structs.NewExplainResponseFailure(wire.Encode(err)), nil
	}
	resp := structs.ExplainResponse{Plan: explanation(plan, snap)}
	if err := tooLarge(overUDP(ctx), replyHeader+resp.XDRSize()); err != nil {
		return structs.NewExplainResponseFailure(wire.Encode(err)), nil
	}
	return resp, nil
}

// MasterStatus tells what state the cluster and its slaves are in.
func (h v2) MasterStatus(context.Context) (structs.ClusterStatus, error) {
	return h.m.status(), nil
}

// MasterMembers lists known ids with their holders.
func (h v2) MasterMembers(ctx context.Context, req structs.MembersRequest) (structs.MembersPage, error) {
	limit := maxMembersBytes
	if overUDP(ctx) {
		limit = maxUDP - replyHeader - 64
	}
	return h.m.members(req, limit), nil
}

// MasterJoin makes a slave a member of the cluster.
func (h v2) MasterJoin(ctx context.Context, req structs.JoinRequest) (structs.JoinResponse, error) {
	if !h.m.may.Allow(ctx) {
		return structs.NewJoinResponseFailure(wire.Encode(h.m.denied(ctx, "join "+string(req.Addr)))), nil
	}
	return h.m.join(ctx, req), nil
}

// MasterChange makes an administrative change.
func (h v2) MasterChange(ctx context.Context, req structs.ChangeRequest) (structs.ChangeResponse, error) {
	if !h.m.may.Allow(ctx) {
		return structs.NewChangeResponseFailure(wire.Encode(h.m.denied(ctx, changeName(req.Kind)))), nil
	}
	return h.m.administer(ctx, req), nil
}
