package master

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"starfish/catalog"
	"starfish/structs"
)

// join adds a slave or learns that a known one runs. It changes nothing when it
// is repeated.
func (m *Master) join(ctx context.Context, req structs.JoinRequest) structs.JoinResponse {
	s := catalog.Slave{Addr: string(req.Addr), Priority: req.Priority, Protocol: req.Protocol}
	fail := func(format string, args ...any) structs.JoinResponse {
		return structs.JoinResponse{Status: structs.QUERY_FAILED, Failure: failure("join "+s.Addr+": "+fmt.Sprintf(format, args...), nil, 0, nil)}
	}
	ids, err := checkJoin(req)
	if err != nil {
		return fail("%v", err)
	}
	old, known := m.cat.Snapshot().Slave(s.Addr)
	if !known || s.Protocol == 1 || s.Protocol != old.Protocol || !samePriority(old.Priority, s.Priority) {
		if err := m.addSlave(ctx, s, ids); err != nil {
			return fail("%v", err)
		}
	}
	m.mon.joined(s.Addr, req.Instance, req.Secret)

	snap := m.cat.Snapshot()
	answer := structs.JoinAnswer{Epoch: snap.Epoch()}
	for _, s := range snap.Slaves() {
		answer.Machines = append(answer.Machines, structs.ClusterMachine{Addr: structs.MachineName(s.Addr), Protocol: s.Protocol})
	}
	return structs.JoinResponse{Status: structs.QUERY_OK, Answer: answer}
}

// addSlave writes the slave down; one at a time, so that two C handlers cannot
// take the same ids where overlap is off.
func (m *Master) addSlave(ctx context.Context, s catalog.Slave, ids []catalog.Span) error {
	m.joins.Lock()
	defer m.joins.Unlock()
	err := m.checkStatic(s.Addr, ids)
	if err == nil {
		err = m.cat.AddSlave(ctx, s, ids)
	}
	if err != nil {
		m.log.Warn("join refused", "addr", s.Addr, "err", err)
		return err
	}
	m.log.Info("slave joined", "addr", s.Addr, "protocol", s.Protocol, "spans", len(ids))
	return nil
}

// checkJoin checks what can be said without the catalog.
func checkJoin(req structs.JoinRequest) ([]catalog.Span, error) {
	addr := string(req.Addr)
	switch {
	case addr == "" || strings.ContainsAny(addr, " \t\r\n\x00/"):
		return nil, fmt.Errorf("%q is neither a host name nor an address", addr)
	case req.Protocol != 1 && req.Protocol != 2:
		return nil, fmt.Errorf("version %d of SLAVE_PROG is not known: 2, or 1 for a C handler", req.Protocol)
	case req.Protocol == 2 && len(req.Ids) > 0:
		return nil, errors.New("--ids is for a C handler (--v1): what another slave holds is put through the master")
	case req.Protocol == 1 && len(req.Ids) == 0:
		return nil, errors.New("a C handler needs --ids: the vectors that it holds")
	}
	ip, err := netip.ParseAddr(addr)
	switch {
	case err == nil && ip.IsUnspecified():
		return nil, fmt.Errorf("%s is no address that others can reach: name the host's own", addr)
	case err != nil && strings.Contains(addr, ":"):
		return nil, errors.New("the address has a port: leave it away, the host's portmapper knows it")
	}
	var ids []catalog.Span
	for _, r := range req.Ids {
		if r.First > r.Last {
			return nil, fmt.Errorf("ids %d-%d: the first is above the last", r.First, r.Last)
		}
		ids = append(ids, catalog.Span{First: r.First, Last: r.Last})
	}
	return ids, nil
}

// checkStatic refuses ids that a write is open for, and without overlap those
// that another slave holds.
func (m *Master) checkStatic(addr string, ids []catalog.Span) error {
	snap := m.cat.Snapshot()
	for _, r := range ids {
		var err error
		snap.AscendIntents(r.First, r.Last, func(in *catalog.Intent) bool {
			err = fmt.Errorf("a write of vector %d is not finished: try again", in.ID)
			return false
		})
		if err == nil && m.cfg.NoOverlap {
			snap.Ascend(r.First, r.Last, func(mem catalog.Member) bool {
				if i := slices.IndexFunc(mem.Holders, func(h string) bool { return h != addr }); i >= 0 {
					err = fmt.Errorf("overlap is off, and vector %d of %s is on %s already", mem.ID, addr, mem.Holders[i])
				}
				return err == nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func samePriority(a, b *int32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
