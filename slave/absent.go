package slave

import (
	"context"
	"sync"

	"starfish/store"
	"starfish/structs"
)

// absents gathers what the machines of one call do not have, as long as its
// caller takes so many: that one judges whether it should be there. A caller that
// takes none, version 1 above all, is told that the machine does not hold it.
type absents struct {
	most int

	mu   sync.Mutex
	list []structs.AbsentVector
}

// absentsFor is what the caller of ctx takes, within what an answer carries.
func absentsFor(ctx context.Context, most uint32) *absents {
	const maxUDPAbsent = 64
	bound := uint32(structs.MAX_ABSENT)
	if overUDP(ctx) {
		bound = maxUDPAbsent
	}
	return &absents{most: int(min(most, bound))}
}

// size is what the list takes in an answer.
func (a *absents) size() uint64 { return uint64(len(a.list)) * 16 }

// room is how many more a call to another machine may bring.
func (a *absents) room() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return uint32(a.most - len(a.list))
}

// add notes what machine, or one behind it, does not have. The error says that
// it is too much.
func (a *absents) add(machine string, more []structs.AbsentVector) error {
	if len(more) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(more) > a.most-len(a.list) {
		ids := make([]uint64, len(more))
		for i, v := range more {
			ids[i] = v.Id
		}
		return notHeld(machine, ids)
	}
	a.list = append(a.list, more...)
	return nil
}

// wireAbsent is what the store does not have, for an answer.
func wireAbsent(absent []store.Absent) []structs.AbsentVector {
	out := make([]structs.AbsentVector, len(absent))
	for i, v := range absent {
		out[i] = structs.AbsentVector{Id: v.ID, Revision: v.Revision}
	}
	return out
}
