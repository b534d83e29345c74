package delegate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"starfish/catalog"
	"starfish/fault"
	"starfish/machine"
	"starfish/router"
)

// unread are vectors that a plan found nobody for.
type unread struct {
	ids      []uint64 // the first of them
	total    uint64
	machines []string // who holds them, or shall have a write to them
	pending  bool     // a write to each is open that nobody is known to have
}

// unreadOf takes the router's error apart.
func unreadOf(pending *router.PendingError, away *router.UnavailableError) unread {
	if pending != nil {
		return unread{pending.IDs, pending.Total, pending.Machines, true}
	}
	return unread{away.IDs, away.Total, away.Machines, false}
}

// hope waits for what may make the vectors readable, and says whether a plan should
// be made again. It compares with snap, which the plan was made of: what has
// changed since then, also before anybody looked, counts.
//
// The order is what makes it safe. The channels are taken first, so that nothing
// that happens after the look is slept through. The verdicts are taken before the
// snapshot and again after it: where they differ, the snapshot may be of a moment
// in which a machine was in doubt, and says nothing.
func (r *run) hope(ctx context.Context, snap *catalog.Snapshot, u unread) bool {
	for {
		changed, stalled := r.cfg.Views.Changed(), r.cfg.Writes.Stalls()
		machines := r.concerned(u)
		verdicts := r.cfg.Health.Verdicts(machines)
		now := r.cfg.Views.Snapshot()
		if improved(snap, now, machines, u.ids) {
			return true
		}
		doubt := firstOpen(verdicts)
		if doubt == nil {
			switch {
			case !slices.Equal(verdicts, r.cfg.Health.Verdicts(machines)):
				continue // now may be of a moment of doubt
			case r.spare(now, u.machines):
				return true
			case r.hopeless(now, u.ids):
				return false
			}
		}
		select {
		case <-doubt:
		case <-changed:
		case <-stalled:
		case <-ctx.Done():
			return false
		}
	}
}

// concerned are all machines of which one may bring a vector back: those that open
// writes wait for are among them.
func (r *run) concerned(u unread) []string {
	machines := slices.Clone(u.machines)
	snap := r.cfg.Views.Snapshot()
	for _, id := range u.ids {
		if in, open := snap.Pending(id); open {
			waits, _ := r.cfg.Writes.Waits(in, snap)
			machines = append(machines, waits...)
		}
	}
	slices.SortFunc(machines, machine.CompareSpelled)
	return slices.Compact(machines)
}

// improved says that now differs from snap in a way that may make one of the ids
// readable.
func improved(snap, now *catalog.Snapshot, machines []string, ids []uint64) bool {
	for _, addr := range machines {
		before, _ := snap.Slave(addr)
		after, _ := now.Slave(addr)
		if after.State == catalog.Serving && before.State != catalog.Serving {
			return true
		}
	}
	return slices.ContainsFunc(ids, func(id uint64) bool {
		in, open := snap.Pending(id)
		inNow, openNow := now.Pending(id)
		if open != openNow || in.Revision != inNow.Revision || len(in.Confirmed) != len(inNow.Confirmed) {
			return true
		}
		mem, known := snap.Member(id)
		memNow, knownNow := now.Member(id)
		if known != knownNow || !slices.Equal(mem.Holders, memNow.Holders) {
			return true
		}
		return slices.ContainsFunc(mem.Holders, func(h string) bool { return snap.IsMissing(h, id) && !now.IsMissing(h, id) })
	})
}

// hopeless says that one of the ids stays unreadable until a slave is back: no write
// to it is open, or one that waits for that, too.
func (r *run) hopeless(now *catalog.Snapshot, ids []uint64) bool {
	return slices.ContainsFunc(ids, func(id uint64) bool {
		in, open := now.Pending(id)
		if !open {
			return true
		}
		_, hopeless := r.cfg.Writes.Waits(in, now)
		return hopeless
	})
}

// spare takes back those machines that this query gave up and that are alive.
func (r *run) spare(now *catalog.Snapshot, machines []string) (spared bool) {
	for _, addr := range machines {
		s, _ := now.Slave(addr)
		if s.State != catalog.Serving || !r.exclude[addr] || r.spared[addr] == maxSpared {
			continue
		}
		if r.spared == nil {
			r.spared = map[string]int{}
		}
		r.spared[addr]++
		delete(r.exclude, addr)
		spared = true
	}
	return spared
}

// firstOpen returns the first that is not closed, nil where all are.
func firstOpen(verdicts []<-chan struct{}) <-chan struct{} {
	for _, ch := range verdicts {
		if ch == nil {
			continue
		}
		select {
		case <-ch:
		default:
			return ch
		}
	}
	return nil
}

// unavailable is the error where there is no hope, or the time is up.
func (r *run) unavailable(u unread) error {
	snap := r.cfg.Views.Snapshot()
	var b strings.Builder
	switch {
	case u.pending && u.total == 1:
		fmt.Fprintf(&b, "unavailable: a write of %s is not finished, and nobody is known to have it", fault.Vectors(u.ids, u.total))
	case u.pending:
		fmt.Fprintf(&b, "unavailable: writes of %s are not finished, and nobody is known to have them", fault.Vectors(u.ids, u.total))
	case u.total == 1:
		fmt.Fprintf(&b, "unavailable: %s has no live holder", fault.Vectors(u.ids, u.total))
	default:
		fmt.Fprintf(&b, "unavailable: %s have no live holder", fault.Vectors(u.ids, u.total))
	}
	for i, addr := range u.machines {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s (%s)", sep, addr, r.whyNot(snap, addr, u.pending))
	}
	b.WriteString("; " + r.advice(snap, u))
	machines := slices.Clone(r.failed)
	for _, addr := range r.concerned(u) {
		if s, _ := snap.Slave(addr); u.pending && s.State == catalog.Serving && !r.exclude[addr] {
			continue // it has not failed, it only does not have the write
		}
		if !slices.Contains(machines, addr) {
			machines = append(machines, addr)
		}
	}
	return fault.New(fault.ErrUnavailable, "%s", b.String()).About(u.total, u.ids...).On(machines...)
}

// whyNot says why the vector is not taken from the machine.
func (r *run) whyNot(snap *catalog.Snapshot, addr string, pending bool) string {
	s, _ := snap.Slave(addr)
	switch {
	case s.State == catalog.Serving && r.exclude[addr] && s.Protocol == 1:
		return r.why[addr] // it lives, and has said something
	case s.State == catalog.Serving && r.exclude[addr]:
		return "failed"
	case s.State == catalog.Serving && pending:
		return "is not known to have it"
	case s.State == catalog.Serving:
		return "does not have it"
	case s.Problem != "":
		return s.State.String() + ", " + s.Problem
	}
	return s.State.String()
}

// advice says what to do. A write that waits for a slave has puts and deletes of its
// vector refused until that one is back.
func (r *run) advice(snap *catalog.Snapshot, u unread) string {
	var away, serve []string
	for _, addr := range r.concerned(u) {
		if s, _ := snap.Slave(addr); s.State != catalog.Serving {
			away = append(away, addr)
		} else {
			serve = append(serve, addr)
		}
	}
	handler := slices.IndexFunc(u.machines, func(addr string) bool { s, _ := snap.Slave(addr); return s.Protocol == 1 })
	open := slices.ContainsFunc(u.ids, func(id uint64) bool { _, open := snap.Pending(id); return open })
	switch {
	case open && len(away) > 0:
		return fmt.Sprintf("start %s again: the write is then finished or undone; until then the vector takes no other one", strings.Join(away, " and "))
	case open && r.hopeless(snap, u.ids):
		return fmt.Sprintf("the write waits for %s: the log there says why it is refused", strings.Join(serve, ", "))
	case open:
		return "try again, with a longer deadline"
	case handler >= 0 && slices.Contains(serve, u.machines[handler]):
		return "give the C handler what it was joined with, or say what it holds with starfish join --v1 --ids ... --replace, or take it out with starfish remove " + u.machines[handler]
	case handler >= 0:
		return fmt.Sprintf("start %s again, or take the C handler out with starfish remove %s", strings.Join(away, " or "), u.machines[handler])
	case len(away) > 0:
		return fmt.Sprintf("start %s again, or put the vector anew, with --on and slaves that serve", strings.Join(away, " or "))
	}
	return "put the vector anew"
}
