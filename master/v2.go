package master

import (
	"context"
	"fmt"

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
	resp := h.m.query(ctx, req)
	if resp.Status == structs.QUERY_OK {
		size := len(resp.Answer.Rows.Roaring) + 8*len(resp.Answer.Rows.Words)
		if what := h.m.tooLarge(ctx, size+64); what != "" {
			return refused(structs.QUERY_TOO_LARGE, failure(what, nil, 0, nil)), nil
		}
	}
	return resp, nil
}

// tooLarge says why a result of so many bytes cannot be sent, "" if it can.
func (m *Master) tooLarge(ctx context.Context, size int) string {
	call := rpc.CallFromContext(ctx)
	switch {
	case call != nil && call.Network == "udp" && size+replyHeader > maxUDP:
		return fmt.Sprintf("an answer of %d bytes does not fit in a datagram: use tcp, or pages", size)
	case size+replyHeader > maxRecord:
		return fmt.Sprintf("an answer of %d bytes is above the record limit of %d: use roaring, or pages", size, maxRecord)
	}
	return ""
}

// MasterPut stores a vector.
func (h v2) MasterPut(ctx context.Context, req structs.PutRequest) (structs.PutResponse, error) {
	if !h.m.mayChange(ctx) {
		return structs.PutResponse{Status: structs.QUERY_DENIED, Failure: h.m.denied(ctx, fmt.Sprint("put ", req.Id))}, nil
	}
	return h.m.put(ctx, req), nil
}

// MasterDelete makes an id unknown.
func (h v2) MasterDelete(ctx context.Context, id uint64) (structs.PutResponse, error) {
	if !h.m.mayChange(ctx) {
		return structs.PutResponse{Status: structs.QUERY_DENIED, Failure: h.m.denied(ctx, fmt.Sprint("delete ", id))}, nil
	}
	return h.m.erase(ctx, id), nil
}

// MasterExplain tells how a query would run now.
func (h v2) MasterExplain(ctx context.Context, req structs.QueryRequest) (structs.ExplainResponse, error) {
	resp := h.m.explain(ctx, req)
	if resp.Status == structs.QUERY_OK {
		if what := h.m.tooLarge(ctx, replyHeader+resp.XDRSize()); what != "" {
			return structs.ExplainResponse{Status: structs.QUERY_TOO_LARGE, Failure: failure(what, nil, 0, nil)}, nil
		}
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
	if call := rpc.CallFromContext(ctx); call != nil && call.Network == "udp" {
		limit = maxUDP - replyHeader - 64
	}
	return h.m.members(req, limit), nil
}

// MasterJoin makes a slave a member of the cluster.
func (h v2) MasterJoin(ctx context.Context, req structs.JoinRequest) (structs.JoinResponse, error) {
	if !h.m.mayChange(ctx) {
		return structs.JoinResponse{Status: structs.QUERY_DENIED, Failure: h.m.denied(ctx, "join "+string(req.Addr))}, nil
	}
	return h.m.join(ctx, req), nil
}

// MasterChange makes an administrative change.
func (h v2) MasterChange(ctx context.Context, req structs.ChangeRequest) (structs.ChangeResponse, error) {
	if !h.m.mayChange(ctx) {
		return structs.ChangeResponse{Status: structs.QUERY_DENIED, Failure: h.m.denied(ctx, changeName(req.Kind))}, nil
	}
	return h.m.administer(ctx, req), nil
}
