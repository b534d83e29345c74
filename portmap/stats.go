package portmap

import (
	"slices"
	"sync"
)

// stats is what GETSTAT answers: calls and look-ups by version, counted as
// rpcbind does it. The lists show the newest entry first; each is bounded.
type stats struct {
	mu     sync.Mutex
	byVers [RPCBVERS_STAT]versionStats
}

type versionStats struct {
	procs       RpcbsProc
	set, unset  int32 // those that were answered TRUE
	lookups     []lookupStat
	remoteCalls []remoteStat
}

// lookupStat counts GETADDR, GETPORT and their like for one program.
type lookupStat struct {
	prog, vers     uint32
	netid          string
	found, missing int32
}

// remoteStat counts CALLIT and its like for one procedure.
type remoteStat struct {
	prog, vers, proc         uint32
	netid                    string
	found, missing, indirect int32
}

// highest is the highest procedure of each version that is counted.
var highest = [RPCBVERS_STAT]uint32{RPCB_HIGHPROC_2, RPCB_HIGHPROC_3, RPCB_HIGHPROC_4}

// of is the counters of a version of the protocol.
func (s *stats) of(vers uint32) *versionStats { return &s.byVers[vers-PMAP_VERS] }

// called counts a call.
func (s *stats) called(vers, proc uint32) {
	if proc > highest[vers-PMAP_VERS] {
		return
	}
	s.mu.Lock()
	s.of(vers).procs[proc]++
	s.mu.Unlock()
}

// changed counts a SET or UNSET that was answered ok.
func (s *stats) changed(vers, proc uint32, ok bool) {
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.of(vers); proc == RPCBPROC_SET {
		v.set++
	} else {
		v.unset++
	}
}

// lookedUp counts a look-up of a program.
func (s *stats) lookedUp(vers uint32, prog, progVers uint32, netid string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entryOf(&s.of(vers).lookups, func(e *lookupStat) bool {
		return e.prog == prog && e.vers == progVers && e.netid == netid
	}, lookupStat{prog: prog, vers: progVers, netid: netid})
	tally(&e.found, &e.missing, found)
}

// passedOn counts a call that was to be passed on.
func (s *stats) passedOn(vers uint32, c remoteCall, netid string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entryOf(&s.of(vers).remoteCalls, func(e *remoteStat) bool {
		return e.prog == c.prog && e.vers == c.vers && e.proc == c.proc && e.netid == netid
	}, remoteStat{prog: c.prog, vers: c.vers, proc: c.proc, netid: netid})
	tally(&e.found, &e.missing, found)
	if c.indirect {
		e.indirect++
	}
}

func tally(found, missing *int32, ok bool) {
	if ok {
		*found++
	} else {
		*missing++
	}
}

// entryOf is the entry of list that match finds, else fresh, which is added.
// The list keeps the order in which entries were added, oldest first.
func entryOf[T any](list *[]T, match func(*T) bool, fresh T) *T {
	for i := range *list {
		if match(&(*list)[i]) {
			return &(*list)[i]
		}
	}
	if len(*list) >= MaxStats {
		*list = slices.Delete(*list, 0, 1)
	}
	*list = append(*list, fresh)
	return &(*list)[len(*list)-1]
}

// answer is the result of GETSTAT.
func (s *stats) answer() RpcbStatByvers {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all RpcbStatByvers
	for i := range s.byVers {
		v := &s.byVers[i]
		a := &all[i]
		a.Info, a.Setinfo, a.Unsetinfo = v.procs, v.set, v.unset
		for _, e := range v.lookups {
			a.Addrinfo = &RpcbsAddrlist{Prog: e.prog, Vers: e.vers, Success: e.found, Failure: e.missing,
				Netid: e.netid, Next: a.Addrinfo}
		}
		for _, e := range v.remoteCalls {
			a.Rmtinfo = &RpcbsRmtcalllist{Prog: e.prog, Vers: e.vers, Proc: e.proc, Success: e.found, Failure: e.missing,
				Indirect: e.indirect, Netid: e.netid, Next: a.Rmtinfo}
		}
	}
	return all
}
