package slave

import (
	"context"
	"fmt"
	"slices"

	"starfish/machine"
	"starfish/rpc"
	"starfish/structs"
)

// legs is a list taken apart by machine. The nodes are those of the list, linked
// anew; a list of a million costs 8 bytes for each node of our own.
type legs struct {
	own    []uint64 // ids of this machine, wherever they stood
	others []*leg   // in the global machine order; see split
}

// leg is the part of another machine, in the order of the list.
type leg struct {
	machine    string // as the list has it; also what is blamed
	target     target
	head, tail *structs.MachineVecNode
	nodes      int
}

// split takes a list apart. A machine outside of the cluster is a failure, and
// then nobody is called.
//
// Whatever order the list has, the others come in the global one. So a call on
// its way along a chain waits only for machines behind its own, and a circle of
// calls that wait for each other's slots cannot be. Where a C handler is among
// them the list's order stays: a handler takes no nodes but those at the head.
func (s *Slave) split(ctx context.Context, list structs.MachineVecList) (*legs, error) {
	l := &legs{}
	byName := map[string]*leg{}
	var last *leg // lists come grouped, as a rule
	for n := list; n != nil; {
		next := n.Next
		if last == nil || last.machine != n.MachineAddr {
			var err error
			if last, err = s.legOf(ctx, l, byName, n.MachineAddr); err != nil {
				return nil, err
			}
		}
		last.add(l, n)
		n = next
	}
	if !slices.ContainsFunc(l.others, func(g *leg) bool { return g.target.static }) {
		slices.SortStableFunc(l.others, func(a, b *leg) int { return machine.CompareSpelled(a.machine, b.machine) })
	}
	return l, nil
}

// legOf returns the leg of a machine, a new one where it was not met before.
func (s *Slave) legOf(ctx context.Context, l *legs, byName map[string]*leg, machine string) (*leg, error) {
	if g := byName[machine]; g != nil {
		return g, nil
	}
	if machine == "" {
		return nil, fmt.Errorf("%w: a node without a machine", rpc.ErrGarbageArgs)
	}
	t, err := s.refreshedTarget(ctx, machine)
	if err != nil {
		return nil, err
	}
	if t.outsider {
		s.log.Warn("a list names a machine outside of the cluster: it is not called", "machine", machine, "from", caller(ctx))
		return nil, outsider(machine)
	}
	g := &leg{machine: machine, target: t}
	byName[machine] = g
	if !t.own {
		l.others = append(l.others, g)
	}
	return g, nil
}

func (g *leg) add(l *legs, n *structs.MachineVecNode) {
	if g.target.own {
		l.own = append(l.own, uint64(n.Vector))
		return
	}
	n.Next = nil
	if g.head == nil {
		g.head = n
	} else {
		g.tail.Next = n
	}
	g.tail = n
	g.nodes++
}

// join links legs into one list, in their order.
func join(all []*leg) (list structs.MachineVecList, nodes int) {
	var tail *structs.MachineVecNode
	for _, g := range all {
		if tail == nil {
			list = g.head
		} else {
			tail.Next = g.head
		}
		tail = g.tail
		nodes += g.nodes
	}
	return list, nodes
}

// chunks cuts a leg into lists of at most n nodes.
func (g *leg) chunks(n int) []structs.MachineVecList {
	var out []structs.MachineVecList
	for node, i := g.head, 0; node != nil; i++ {
		if i%n == 0 {
			out = append(out, node)
		}
		next := node.Next
		if i%n == n-1 {
			node.Next = nil
		}
		node = next
	}
	return out
}

// halves cuts a leg of at least two nodes in two.
func (g *leg) halves() (halves []*leg) {
	n := (g.nodes + 1) / 2
	for i, list := range g.chunks(n) {
		h := &leg{machine: g.machine, target: g.target}
		for node := list; node != nil; node = node.Next {
			if h.head == nil {
				h.head = node
			}
			h.tail = node
		}
		h.nodes = min(n, g.nodes-i*n)
		halves = append(halves, h)
	}
	return halves
}

// caller is who made the call of ctx, for the log.
func caller(ctx context.Context) string {
	if call := rpc.CallFromContext(ctx); call != nil && call.Remote != nil {
		return call.Remote.String()
	}
	return "this process"
}
