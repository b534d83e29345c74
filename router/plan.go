// Package router makes the plan of a query: which slave each vector is taken
// from, in which order a range visits the machines, and which slave coordinates.
// It is pure: the same snapshot, query and options give the same plan.
//
// Who serves a vector that several slaves hold: where no slave of the cluster has
// a priority, the one with the fewest members; where at least one has, the one
// with the lowest, unset being 2147483647. Ties are decided by one permutation of
// the slaves that is drawn once a query, so that a tie does not lengthen a chain.
//
// Reading the source: plan.go has the shapes, route.go makes the plan, choose.go
// picks a holder.
package router

import (
	"errors"
	"fmt"
	"strings"
)

// MaxNodes bounds the (machine, vector) pairs of a plan: list nodes of one call.
const MaxNodes = 2_000_000

// Policy is how the coordinator is chosen.
type Policy uint8

const (
	Random     Policy = iota
	RoundRobin        // Options.Turn decides
	Bandwidth         // the slave that holds most of the plan's bytes; chance among near equals
)

// Strategy is how the coordinator runs a range; the values are those of
// range_strategy in structs.x.
type Strategy uint32

const (
	Chain  Strategy = 0 // hop by hop
	FanOut Strategy = 1 // each machine is called by the coordinator
)

// Reason is why a vector is taken from this slave and no other; the values are
// those of route_reason in structs.x.
type Reason uint32

const (
	ReasonOnlyHolder    Reason = 0
	ReasonPriority      Reason = 1
	ReasonFewestMembers Reason = 2
	ReasonRandom        Reason = 3
	ReasonFailover      Reason = 4
	ReasonMasked        Reason = 5
)

func (r Reason) String() string {
	words := [...]string{"only holder", "priority", "fewest members", "random", "failover", "masked"}
	if int(r) >= len(words) {
		return fmt.Sprintf("reason %d", uint32(r))
	}
	return words[r]
}

// Options are what a plan depends on beside snapshot and query.
type Options struct {
	Seed    uint64          // of all chance in the plan
	Exclude map[string]bool // machines that failed in this query
	Policy  Policy
	Turn    uint64 // counts the queries, for RoundRobin
	Chain   bool   // ranges run hop by hop; else each machine is called once, for all of them
	Explain bool   // fill Plan.Members, which a plan is run without
}

// Leg is what one machine ORs for a range.
type Leg struct {
	Machine string
	IDs     []uint64 // ascending
}

// RangePlan is how one range is run.
type RangePlan struct {
	Legs     []Leg // in the global machine order, each machine once; none: the range is empty
	Vectors  uint64
	Bytes    uint64 // of its vectors together
	Strategy Strategy
	Why      string // of the strategy
}

// Choice is where one vector is taken from.
type Choice struct {
	ID     uint64
	From   string
	Reason Reason
}

// Plan is how a query is run.
type Plan struct {
	Ranges      []RangePlan // as in the query; of a point query one with one leg
	Coordinator string      // "" for a point query, and where no slave serves that can be one
	Seed        uint64
	Members     []Choice // each vector once, ascending; only with Options.Explain
}

// Empty says that a range has no known vector, so that the answer has no row.
func (p *Plan) Empty() bool {
	for _, r := range p.Ranges {
		if len(r.Legs) == 0 {
			return true
		}
	}
	return false
}

// ErrNoSuchVector: a point query names an id that is not known.
var ErrNoSuchVector = errors.New("no such vector")

// NoSuchVectorError is ErrNoSuchVector with the id.
type NoSuchVectorError struct{ ID uint64 }

// Error names the id.
func (e *NoSuchVectorError) Error() string { return fmt.Sprintf("no such vector: %d", e.ID) }

// Is matches ErrNoSuchVector.
func (e *NoSuchVectorError) Is(target error) bool { return target == ErrNoSuchVector }

// maxListed bounds the ids that an error names: failure<1000> of structs.x.
const maxListed = 1000

// UnavailableError says that known vectors have no holder that can serve them.
type UnavailableError struct {
	IDs      []uint64 // the first 1000, ascending
	Total    uint64
	Machines []string // their holders, in the global machine order
}

// Error names the first ids and the machines.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("unavailable: no live holder of %s; held by %s", listed(e.IDs, e.Total), strings.Join(e.Machines, ", "))
}

// PendingError says that vectors cannot be read until an unfinished write to them
// is confirmed by a holder.
type PendingError struct {
	IDs      []uint64 // the first 1000, ascending
	Total    uint64
	Machines []string // who shall have the writes, in the global machine order
}

// Error names the first ids.
func (e *PendingError) Error() string {
	return fmt.Sprintf("unavailable: an unfinished write to %s, for %s", listed(e.IDs, e.Total), strings.Join(e.Machines, ", "))
}

// TooLargeError says that the plan would have more than MaxNodes nodes.
type TooLargeError struct{}

// Error tells the bound.
func (*TooLargeError) Error() string {
	return fmt.Sprintf("too large: the query reads more than %d vectors", MaxNodes)
}

// listed is the start of a list of ids for a message.
func listed(ids []uint64, total uint64) string {
	const most = 8
	var b strings.Builder
	if b.WriteString("vector"); total != 1 {
		b.WriteString("s")
	}
	for i, id := range ids[:min(len(ids), most)] {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", id)
	}
	if total > most {
		fmt.Fprintf(&b, " and %d more", total-most)
	}
	return b.String()
}
