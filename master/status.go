package master

import (
	"math"

	"starfish/catalog"
	"starfish/fault"
	"starfish/structs"
)

const (
	defaultMembers  = 10_000
	maxMembers      = 100_000
	maxMembersBytes = 16 << 20 // of one page
)

// status is the cluster as it is now.
func (m *Master) status() structs.ClusterStatus {
	snap := m.cat.Snapshot()
	st := structs.ClusterStatus{
		Epoch:           snap.Epoch(),
		Vectors:         snap.Known(),
		UnderReplicated: snap.UnderReplicated(m.cfg.Replicas),
		Unavailable:     snap.Unavailable(),
		Pending:         uint64(len(snap.Intents())),
		Replicas:        uint32(m.cfg.Replicas),
		Release:         m.cfg.Release,
	}
	for _, s := range snap.Slaves() {
		st.Slaves = append(st.Slaves, structs.SlaveStatus{
			Addr:     structs.MachineName(s.Addr),
			State:    wireState(s.State),
			Priority: s.Priority,
			Members:  s.Members,
			Missing:  s.Missing,
			SetAside: s.SetAside,
			Protocol: s.Protocol,
			Problem:  fault.Clip(s.Problem, structs.MAX_MESSAGE),
		})
	}
	return st
}

func wireState(s catalog.State) structs.SlaveState {
	switch s {
	case catalog.Joining:
		return structs.SLAVE_JOINING
	case catalog.Serving:
		return structs.SLAVE_SERVING
	}
	return structs.SLAVE_DOWN
}

// members is one page of the member map, of at most limit bytes.
func (m *Master) members(req structs.MembersRequest, limit int) structs.MembersPage {
	snap := m.cat.Snapshot()
	most := min(int(req.MaxMembers), maxMembers)
	if most == 0 {
		most = defaultMembers
	}
	var page structs.MembersPage
	snap.Ascend(req.FirstId, math.MaxUint64, func(mem catalog.Member) bool {
		out := structs.Member{Id: mem.ID, Name: mem.Name, Bytes: mem.Bytes}
		for _, h := range mem.Holders {
			out.Holders = append(out.Holders, structs.MachineName(h))
		}
		if limit -= out.XDRSize(); len(page.Members) == most || limit < 0 && len(page.Members) > 0 {
			page.More = true
			return false
		}
		_, out.Pending = snap.Pending(mem.ID)
		page.Members = append(page.Members, out)
		return true
	})
	return page
}
