package master

import (
	"context"
	"errors"
	"fmt"
	"net"

	"starfish/catalog"
	"starfish/fault"
	"starfish/fault/wire"
	"starfish/machine"
	"starfish/master/health"
	"starfish/peer"
	"starfish/rpc"
	"starfish/structs"
)

// join adds a slave or learns that a known one runs. It changes nothing when it
// is repeated.
func (m *Master) join(ctx context.Context, req structs.JoinRequest) structs.JoinResponse {
	ids, err := checkJoin(req)
	if err != nil {
		return m.joinRefused(req, err)
	}
	// A slave of ours that joins by itself is who it says: only people mistype.
	byHand := req.Instance == 0
	addr, err := m.nameOf(ctx, string(req.Addr), byHand)
	if err != nil {
		return m.joinRefused(req, err)
	}
	s := catalog.Slave{Addr: addr, Priority: req.Priority, Protocol: req.Protocol}
	old, known := m.cat.Snapshot().Slave(addr)
	answer := structs.JoinAnswer{Addr: structs.MachineName(addr)}
	switch {
	case s.Protocol == 1:
		err = m.joinStatic(ctx, s, ids, req, &answer)
	case known && s.Protocol == old.Protocol && samePriority(old.Priority, s.Priority):
	default:
		if !known && byHand && !req.Force {
			err = m.answers(ctx, s)
		}
		if err == nil {
			err = m.cat.AddSlave(ctx, s, nil)
		}
		if err == nil {
			m.log.Info("slave joined", "addr", addr, "protocol", s.Protocol)
		}
	}
	if err != nil {
		return m.joinRefused(req, err)
	}
	m.health.Joined(addr, health.Joined{Instance: req.Instance, Secret: peer.Secret(req.Secret), Problem: req.Problem})

	snap := m.cat.Snapshot()
	answer.Epoch = snap.Epoch()
	for _, s := range snap.Slaves() {
		answer.Machines = append(answer.Machines, structs.ClusterMachine{Addr: structs.MachineName(s.Addr), Protocol: s.Protocol})
	}
	return structs.JoinResponse{Status: structs.QUERY_OK, Answer: answer}
}

// joinRefused is the answer of a join that has changed nothing.
func (m *Master) joinRefused(req structs.JoinRequest, err error) structs.JoinResponse {
	m.log.Warn("join refused", "addr", req.Addr, "err", err)
	f := fault.New(fault.ErrFailed, "join %s: %v", req.Addr, err)
	if r := (*claimError)(nil); errors.As(err, &r) {
		f.About(uint64(len(r.ids)), r.ids...)
	}
	return structs.NewJoinResponseFailure(wire.Encode(f))
}

// checkJoin checks what can be said without the catalog.
func checkJoin(req structs.JoinRequest) ([]catalog.Span, error) {
	if _, _, err := net.SplitHostPort(string(req.Addr)); err == nil {
		return nil, errors.New("the address has a port: leave it away, the host's portmapper knows it")
	}
	if _, err := machine.Parse(string(req.Addr)); err != nil {
		return nil, err
	}
	switch {
	case req.Protocol != 1 && req.Protocol != 2:
		return nil, fmt.Errorf("version %d of SLAVE_PROG is not known: 2, or 1 for a C handler", req.Protocol)
	case req.Protocol == 2 && len(req.Ids) > 0:
		return nil, errors.New("--ids is for a C handler (--v1): what another slave holds is put through the master")
	case req.Protocol == 2 && req.Replace:
		return nil, errors.New("--replace is for a C handler (--v1): what another slave holds is put through the master")
	case req.Protocol == 1 && len(req.Ids) == 0:
		return nil, errors.New("a C handler needs --ids: the vectors that it holds")
	}
	var ids []catalog.Span
	for _, r := range req.Ids {
		if r.First > r.Last {
			return nil, fmt.Errorf("ids %d-%d: the first is above the last", r.First, r.Last)
		}
		ids = append(ids, catalog.Span{First: r.First, Last: r.Last})
	}
	return catalog.MergeSpans(ids), nil
}

// answers asks a machine that would join whether it is there, and serves what it
// is said to serve.
func (m *Master) answers(ctx context.Context, s catalog.Slave) error {
	err := m.pool.Null(ctx, s.Addr, s.Protocol, m.handlerPatience())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpc.ErrProgMismatch):
		return fmt.Errorf("it does not serve version %d of SLAVE_PROG: nothing was changed; a C handler joins with --v1 --ids", s.Protocol)
	}
	return fmt.Errorf("it does not answer (%s): nothing was changed; see that the address is right and that it runs, or --force takes it all the same", peer.Reason(err))
}

func samePriority(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
