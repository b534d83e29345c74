// Package wire is a fault as it travels: query_status and query_failure of
// structs.x, and back. It is the only place that knows both, and the bounds.
package wire

import (
	"cmp"

	"starfish/fault"
	"starfish/structs"
)

// Encode is err as an answer carries it: the *fault.Error in its chain, or else
// QUERY_FAILED with its text; QUERY_OK of nil. What does not fit the bounds of
// structs.x is cut: the first ids and machines are the ones that tell most, and a
// text keeps its beginning. Names of packages are left out, people read it.
func Encode(err error) (structs.QueryStatus, structs.QueryFailure) {
	if err == nil {
		return structs.QUERY_OK, structs.QueryFailure{}
	}
	e := fault.Of(err)
	if e == nil {
		return structs.QUERY_FAILED, structs.QueryFailure{Message: text(err.Error())}
	}
	f := structs.QueryFailure{
		Message:      text(e.Error()),
		Position:     uint32(max(e.Position, 0)),
		Vectors:      e.IDs[:min(len(e.IDs), structs.MAX_LISTED)],
		VectorsTotal: max(e.Total, uint64(len(e.IDs))),
	}
	for _, m := range e.Machines[:min(len(e.Machines), structs.MAX_LISTED)] {
		f.FailedMachines = append(f.FailedMachines, structs.MachineName(fault.Clip(m, structs.MAX_MACHINE_ADDR)))
	}
	return status(e.Kind), f
}

// status is the kind's number. One that is no status, 0 among them, would be read
// as success or not at all.
func status(k fault.Kind) structs.QueryStatus {
	if k < fault.ErrSyntax || k > fault.ErrDenied {
		return structs.QUERY_FAILED
	}
	return structs.QueryStatus(k)
}

// Decode is the error that an answer carries, a *fault.Error; nil of QUERY_OK.
// The lists of an answer are bounded by its record alone: they are cut here, too.
func Decode(st structs.QueryStatus, f structs.QueryFailure) error {
	if st == structs.QUERY_OK {
		return nil
	}
	e := fault.New(fault.Kind(st), "%s", cmp.Or(f.Message, st.String()))
	e.Position = int(f.Position)
	e.About(f.VectorsTotal, f.Vectors[:min(len(f.Vectors), structs.MAX_LISTED)]...)
	for _, m := range f.FailedMachines[:min(len(f.FailedMachines), structs.MAX_LISTED)] {
		e.On(string(m))
	}
	return e
}

func text(message string) string { return fault.Clip(fault.Plain(message), structs.MAX_MESSAGE) }
