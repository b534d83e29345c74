package master

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/peer"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// fleet is slaves in this process, found by name and not through a portmapper.
type fleet struct {
	t      testing.TB
	pool   *peer.Pool // of its coordinators
	mu     sync.Mutex
	slaves map[string]*fake
}

const testHop = 300 * time.Millisecond

func newFleet(t testing.TB, addrs ...string) *fleet {
	f := &fleet{t: t, slaves: map[string]*fake{}}
	f.pool = peer.New(peer.Config{HopTimeout: testHop, Dial: f.dial})
	for _, a := range addrs {
		f.add(a, 2)
	}
	t.Cleanup(func() {
		f.pool.Close()
		for _, s := range f.slaves {
			s.stop()
		}
	})
	return f
}

func (f *fleet) add(addr string, protocol uint32) *fake {
	s := &fake{fleet: f, addr: addr, protocol: protocol, store: map[uint64]stored{}}
	f.mu.Lock()
	f.slaves[addr] = s
	f.mu.Unlock()
	s.start()
	return s
}

func (f *fleet) dial(ctx context.Context, machine string, _ uint32) (*rpc.Client, error) {
	f.mu.Lock()
	s := f.slaves[machine]
	f.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("no host %s", machine)
	}
	return rpc.Dial(ctx, "tcp", s.at.Load().(string), rpc.ClientConfig{})
}

// fake is a slave that keeps its vectors in memory.
type fake struct {
	fleet    *fleet
	addr     string
	protocol uint32
	at       atomic.Value // host:port
	srv      *rpc.Server
	done     chan struct{}

	refuses func(structs.JoinSecret) bool // a change; nil: none. Set before the first one

	mu       sync.Mutex
	store    map[uint64]stored
	instance uint64
	gate     chan struct{}                         // not nil: nothing is read until it is closed
	refuse   func(op string, id uint64) error      // error of a handler
	answer   func(id uint64) *structs.RowsResponse // instead of the vector
	calls    map[string]int
	pageSize int
}

type stored struct {
	revision uint64
	deleted  bool
	rows     *vector.Bitmap
}

var instances atomic.Uint64

func (s *fake) start() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.fleet.t, err)
	s.at.Store(l.Addr().String())
	s.srv = rpc.NewServer(rpc.ServerConfig{Logger: testLogger()})
	s.mu.Lock()
	s.instance = instances.Add(1)
	s.mu.Unlock()
	structs.RegisterSlaveProgSlaveV1(s.srv, fakeV1{s})
	if s.protocol == 2 {
		structs.RegisterSlaveProgSlaveV2(s.srv, fakeV2{s})
	}
	s.done = make(chan struct{})
	go func(srv *rpc.Server) { defer close(s.done); srv.Serve(gatedListener{l, s}) }(s.srv)
}

// stop ends the slave at once; start starts it again, with what it had.
func (s *fake) stop() {
	s.thaw()
	s.srv.Close()
	<-s.done
}

// freeze makes the slave silent, as SIGSTOP does; thaw ends that.
func (s *fake) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

func (s *fake) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

type gatedListener struct {
	net.Listener
	s *fake
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return gatedConn{c, l.s}, err
}

type gatedConn struct {
	net.Conn
	s *fake
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.s.wait()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.s.wait()
	return c.Conn.Write(b)
}

func (s *fake) wait() {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// note counts a call and says whether it fails.
func (s *fake) note(op string, id uint64) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[op]++
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		return refuse(op, id)
	}
	return nil
}

func (s *fake) count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

func (s *fake) setRefuse(f func(op string, id uint64) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

func (s *fake) get(id uint64) stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store[id]
}

// set stores past the master.
func (s *fake) set(id, revision uint64, rows ...uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store[id] = stored{revision: revision, rows: vector.New(rows...)}
}

func (s *fake) drop(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.store, id)
}

func (s *fake) has(id uint64) bool {
	v := s.get(id)
	return v.revision > 0 && !v.deleted
}

// or ORs the ids into dst; the ids that the slave does not have come back.
func (s *fake) or(dst *vector.Bitmap, ids []uint64) (lacks []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		v, ok := s.store[id]
		if !ok || v.deleted {
			lacks = append(lacks, id)
			continue
		}
		dst.Or(v.rows)
	}
	return lacks
}

type fakeV2 struct{ *fake }

func (s fakeV2) HandleQuery(ctx context.Context, a structs.HandleQuery2Args) (structs.RowsResponse, error) {
	var ids []uint64
	for n := a.List; n != nil; n = n.Next {
		ids = append(ids, uint64(n.Vector))
	}
	if err := s.note("handle", 0); err != nil {
		return structs.RowsResponse{}, err
	}
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil && len(ids) > 0 {
		if r := answer(ids[0]); r != nil {
			return *r, nil
		}
	}
	dst, err := rows.Decode(&a.Result)
	if err != nil {
		return structs.RowsResponse{}, err
	}
	var absent []structs.AbsentVector
	if lacks := s.or(dst, ids); len(lacks) <= int(a.MaxAbsent) {
		for _, id := range lacks {
			absent = append(absent, structs.AbsentVector{Id: id, Revision: s.get(id).revision})
		}
	} else {
		return structs.RowsResponse{Status: structs.QUERY_NOT_HELD, Failure: structs.QueryFailure{
			Message: "not held", Vectors: lacks, VectorsTotal: uint64(len(lacks)), FailedMachines: []structs.MachineName{structs.MachineName(s.addr)}}}, nil
	}
	out, err := rows.Encode(dst, a.Format)
	return structs.RowsResponse{Leg: structs.LegAnswer{Rows: out, Absent: absent}}, err
}

// Coordinate takes every leg from its machine.
func (s fakeV2) Coordinate(ctx context.Context, a structs.Coordinate2Args) (structs.Coordinate2Response, error) {
	if err := s.note("coordinate", 0); err != nil {
		return structs.Coordinate2Response{}, err
	}
	var all *vector.Bitmap
	var absent []structs.AbsentVector
	for _, rg := range a.Ranges {
		part := vector.New()
		for n := rg.List; n != nil; {
			machine := n.MachineAddr
			var head structs.MachineVecList
			next := &head
			for ; n != nil && n.MachineAddr == machine; n = n.Next {
				*next = &structs.MachineVecNode{MachineAddr: machine, Vector: n.Vector}
				next = &(*next).Next
			}
			if failed := s.leg(ctx, machine, head, part, a.MaxAbsent, &absent); failed != nil {
				return *failed, nil
			}
		}
		if all == nil {
			all = part
		} else {
			all.And(part)
		}
	}
	out, err := rows.EncodeFrom(all.Page(a.FirstRow, a.MaxRows), a.FirstRow, a.Format)
	return structs.Coordinate2Response{Result: structs.CoordinatedAnswer{Answer: structs.QueryAnswer{Count: all.Count(), Rows: out}, Absent: absent}}, err
}

func (s fakeV2) leg(ctx context.Context, machine string, list structs.MachineVecList, part *vector.Bitmap, most uint32, absent *[]structs.AbsentVector) *structs.Coordinate2Response {
	var res structs.RowsResponse
	args := structs.HandleQuery2Args{List: list, Format: structs.BITMAP_ROARING, MaxAbsent: most}
	var err error
	s.fleet.mu.Lock()
	other := s.fleet.slaves[machine]
	s.fleet.mu.Unlock()
	switch {
	case machine == s.addr:
		res, err = s.HandleQuery(ctx, args)
	case other != nil && other.protocol == 1:
		return s.static(ctx, machine, list, part)
	default:
		err = s.fleet.pool.Call(ctx, machine, func(ctx context.Context, c rpc.Caller) (err error) {
			res, err = structs.NewSlaveProgSlaveV2Client(c).HandleQuery(ctx, args)
			return err
		})
	}
	if err != nil {
		return &structs.Coordinate2Response{Status: structs.QUERY_UNAVAILABLE, Failure: structs.QueryFailure{Message: err.Error(), FailedMachines: []structs.MachineName{structs.MachineName(machine)}}}
	}
	if res.Status != structs.QUERY_OK {
		return &structs.Coordinate2Response{Status: res.Status, Failure: res.Failure}
	}
	*absent = append(*absent, res.Leg.Absent...)
	b, err := rows.Decode(&res.Leg.Rows)
	require.NoError(s.fleet.t, err)
	part.Or(b)
	return nil
}

// static takes the vectors of a C handler.
func (s fakeV2) static(ctx context.Context, machine string, list structs.MachineVecList, part *vector.Bitmap) *structs.Coordinate2Response {
	for n := list; n != nil; n = n.Next {
		var res structs.QueryReturnValue
		err := s.fleet.pool.CallOnce(ctx, machine, testHop, func(ctx context.Context, c rpc.Caller) (err error) {
			res, err = structs.NewSlaveProgSlaveV1Client(c).HandleQuery(ctx, structs.HandleQueryArgs{List: &structs.MachineVecNode{MachineAddr: machine, Vector: n.Vector}})
			return err
		})
		if err != nil || res.FailedMachine != "" {
			return &structs.Coordinate2Response{Status: structs.QUERY_FAILED, Failure: structs.QueryFailure{
				Message: fmt.Sprint(machine, " failed: ", err), FailedMachines: []structs.MachineName{structs.MachineName(machine)}}}
		}
		part.Or(vector.FromWord(uint64(res.Vector)))
	}
	return nil
}

func (s fakeV2) SlaveStore(_ context.Context, r structs.StoreRequest) (structs.RevisionResponse, error) {
	if s.refuses != nil && s.refuses(r.Secret) {
		return structs.RevisionResponse{Status: structs.QUERY_DENIED}, nil
	}
	if err := s.note("store", r.Id); err != nil {
		return structs.RevisionResponse{}, err
	}
	b, err := rows.Decode(&r.Rows)
	if err != nil {
		return structs.RevisionResponse{}, err
	}
	return s.write(r.Id, stored{revision: r.Revision, rows: b}), nil
}

func (s fakeV2) SlaveDelete(_ context.Context, r structs.EraseRequest) (structs.RevisionResponse, error) {
	if s.refuses != nil && s.refuses(r.Secret) {
		return structs.RevisionResponse{Status: structs.QUERY_DENIED}, nil
	}
	if err := s.note("delete", r.Id); err != nil {
		return structs.RevisionResponse{}, err
	}
	return s.write(r.Id, stored{revision: r.Revision, deleted: true}), nil
}

func (s *fake) write(id uint64, v stored) structs.RevisionResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store[id].revision < v.revision {
		s.store[id] = v
	}
	return structs.RevisionResponse{Revision: s.store[id].revision}
}

func (s fakeV2) SlaveInventory(_ context.Context, r structs.InventoryRequest) (structs.InventoryResponse, error) {
	if err := s.note("inventory", r.FirstId); err != nil {
		return structs.InventoryResponse{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := int(r.MaxItems)
	if limit == 0 {
		limit = s.pageSize
	}
	if limit == 0 {
		limit = 1000
	}
	var ids []uint64
	for id := range s.store {
		if id >= r.FirstId {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	page := structs.InventoryPage{Instance: s.instance, More: len(ids) > limit}
	for _, id := range ids[:min(limit, len(ids))] {
		v := s.store[id]
		page.Items = append(page.Items, structs.InventoryItem{Id: id, Revision: v.revision, Deleted: v.deleted})
	}
	return structs.InventoryResponse{Page: page}, nil
}

// SlaveLeg is what coordinators call, and those are fakes.
func (fakeV2) SlaveLeg(context.Context, structs.LegRequest) (structs.LegResponse, error) {
	return structs.LegResponse{}, rpc.ErrProcUnavail
}

func (s fakeV2) SlaveFetch(_ context.Context, id uint64) (structs.FetchResponse, error) {
	if err := s.note("fetch", id); err != nil {
		return structs.FetchResponse{}, err
	}
	v := s.get(id)
	out := structs.StoredVector{Revision: v.revision, Deleted: v.deleted || v.revision == 0}
	if v.rows != nil {
		var err error
		if out.Rows, err = rows.Encode(v.rows.Clone(), structs.BITMAP_ROARING); err != nil {
			return structs.FetchResponse{}, err
		}
	}
	return structs.FetchResponse{Vector: out}, nil
}

// fakeV1 is a C handler: words, and no COORDINATE.
type fakeV1 struct{ *fake }

func (s fakeV1) HandleQuery(_ context.Context, a structs.HandleQueryArgs) (structs.QueryReturnValue, error) {
	if err := s.note("handle1", uint64(a.List.Vector)); err != nil {
		return structs.QueryReturnValue{}, err
	}
	dst := vector.FromWord(uint64(a.Result))
	if len(s.or(dst, []uint64{uint64(a.List.Vector)})) > 0 {
		return structs.QueryReturnValue{FailedMachine: s.addr}, nil
	}
	word, _ := dst.Word()
	return structs.QueryReturnValue{Vector: structs.VecT(word)}, nil
}

func (s fakeV1) Coordinate(context.Context, structs.CoordinateArgs) (structs.CoordinateReturnValue, error) {
	return structs.CoordinateReturnValue{}, rpc.ErrProcUnavail
}
