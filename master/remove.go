package master

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"starfish/catalog"
	"starfish/fault"
	"starfish/fault/wire"
	"starfish/structs"
)

// administer makes an administrative change.
func (m *Master) administer(ctx context.Context, req structs.ChangeRequest) structs.ChangeResponse {
	if req.Kind == structs.CHANGE_REMOVE {
		return m.remove(ctx, req.Remove)
	}
	return structs.NewChangeResponseFailure(wire.Encode(
		fault.New(fault.ErrFailed, "%s is not there yet in this release of the master: nothing was changed", changeName(req.Kind))))
}

// changeName is the kind as people write it.
func changeName(k structs.ChangeKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "CHANGE_"))
}

// remove takes a C handler out, or a slave that never served.
func (m *Master) remove(ctx context.Context, req structs.RemoveChange) structs.ChangeResponse {
	refuse := func(ids []catalog.Span, format string, args ...any) structs.ChangeResponse {
		msg := fmt.Sprintf("remove %s: ", req.Addr) + fmt.Sprintf(format, args...)
		m.log.Warn("removal refused", "addr", req.Addr, "why", msg)
		return structs.NewChangeResponseFailure(wire.Encode(fault.New(fault.ErrFailed, "%s", msg).About(catalog.CountIDs(ids), firstIDs(ids)...)))
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultDeadline)
	defer cancel()
	leave, err := m.takeTurn(ctx)
	if err != nil {
		return refuse(nil, "%v", err)
	}
	defer leave()
	addr, err := m.nameOf(ctx, string(req.Addr), true)
	if err != nil {
		return refuse(nil, "%v", err)
	}
	snap := m.cat.Snapshot()
	s, known := snap.Slave(addr)
	if !known {
		return refuse(nil, "no such slave has joined: starfish status lists them")
	}
	only := snap.OnlyHeld(addr)
	err = m.cat.Remove(context.WithoutCancel(ctx), addr, req.Forget)
	switch {
	case errors.Is(err, catalog.ErrOnlyHolder):
		ids := firstIDs(only)
		return refuse(only, "nobody else holds %s: nothing was changed; --forget removes it, and them", fault.Vectors(ids, catalog.CountIDs(only)))
	case errors.Is(err, catalog.ErrServed):
		return refuse(nil, "it has served (%d vectors, state %s), and what is on a slave cannot be moved away yet: nothing was changed. C handlers can be removed, and slaves that never held anything and do not run", s.Members, s.State)
	case err != nil:
		return refuse(nil, "%v", err)
	}
	m.health.Unwatch(addr)
	answer := structs.ChangeAnswer{Epoch: m.cat.Snapshot().Epoch()}
	answer.Ids, answer.IdsTotal = wireSpans(only)
	m.log.Info("slave removed", "addr", addr, "forgotten", answer.IdsTotal)
	return structs.ChangeResponse{Status: structs.QUERY_OK, Answer: answer}
}

// firstIDs are the first ids of the spans, as many as a failure names.
func firstIDs(spans []catalog.Span) (ids []uint64) {
	for _, s := range spans {
		for id := s.First; len(ids) < structs.MAX_LISTED; id++ {
			ids = append(ids, id)
			if id == s.Last {
				break
			}
		}
	}
	return ids
}
