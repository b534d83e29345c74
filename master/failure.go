package master

import (
	"fmt"
	"strings"

	"starfish/catalog"
	"starfish/peer"
	"starfish/structs"
)

// failure makes a query_failure within the bounds of structs.x.
func failure(message string, ids []uint64, total uint64, machines []string) structs.QueryFailure {
	f := structs.QueryFailure{Message: clip(peer.Plain(message)), Vectors: ids, VectorsTotal: max(total, uint64(len(ids)))}
	if len(ids) > structs.MAX_LISTED {
		f.Vectors = ids[:structs.MAX_LISTED]
	}
	for _, m := range machines[:min(len(machines), structs.MAX_LISTED)] {
		f.FailedMachines = append(f.FailedMachines, structs.MachineName(m))
	}
	return f
}

func clip(s string) string {
	if len(s) <= structs.MAX_MESSAGE {
		return s
	}
	return strings.ToValidUTF8(s[:structs.MAX_MESSAGE-3], "") + "..."
}

// refused is a query's answer other than QUERY_OK.
func refused(st structs.QueryStatus, f structs.QueryFailure) structs.QueryResponse {
	return structs.QueryResponse{Status: st, Failure: f}
}

// refuse is a write's answer other than QUERY_OK.
func refuse(st structs.QueryStatus, message string, id uint64, machines ...string) structs.PutResponse {
	return structs.PutResponse{Status: st, Failure: failure(message, []uint64{id}, 1, machines)}
}

// fail is the answer of a write that did not succeed.
func (w *write) fail(st structs.QueryStatus, machines []string, format string, args ...any) structs.PutResponse {
	return refuse(st, fmt.Sprintf("%s of %d: ", opName(w.op), w.id)+fmt.Sprintf(format, args...), w.id, machines...)
}

// unfinished is the answer of a write that not all of its holders acknowledged.
func (w *write) unfinished(errs map[string]error) structs.PutResponse {
	whom := "it"
	if len(errs) > 1 {
		whom = "they"
	}
	return w.fail(structs.QUERY_UNAVAILABLE, sortedKeys(errs),
		"not acknowledged by %v: it may or may not have happened; it is finished or undone once %s can be asked", failures(errs), whom)
}

func opName(op catalog.Op) string {
	if op == catalog.Delete {
		return "delete"
	}
	return "put"
}

// idList writes the first vectors for a message.
func idList(ids []uint64, total uint64) string {
	const shown = 10
	var b strings.Builder
	b.WriteString("vector")
	if total != 1 {
		b.WriteString("s")
	}
	b.WriteString(" ")
	for i, id := range ids[:min(len(ids), shown)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, id)
	}
	if total > shown {
		fmt.Fprintf(&b, ", ... (%d in all)", total)
	}
	return b.String()
}
