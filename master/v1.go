package master

import (
	"context"
	"fmt"
	"log/slog"

	"starfish/fault/wire"
	"starfish/master/delegate"
	"starfish/peer"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
)

// v1 serves MASTER_PROG version 1: one word an answer.
type v1 struct{ m *Master }

var _ structs.MasterProgMasterV1Handler = v1{}

// wordRows is a page that shows whether the answer fits in a word: of 65 rows at
// least one is above 63.
const wordRows = 65

// MasterQuery runs a query whose answer fits in a word. The wire has no status,
// so what went wrong is an accept status, or a failed machine.
func (h v1) MasterQuery(ctx context.Context, text structs.QueryText) (structs.QueryReturnValue, error) {
	a, err := h.m.queries.Query(ctx, delegate.Request{Text: string(text), Format: peer.Roaring, MaxRows: wordRows})
	if err != nil {
		return v1Failure(h.m.log, text, err)
	}
	b, err := rows.Decode((*structs.RowBitmap)(&a.Rows))
	if err != nil {
		return structs.QueryReturnValue{}, systemError(text, err)
	}
	word, ok := b.Word()
	if !ok {
		return structs.QueryReturnValue{}, systemError(text, fmt.Errorf("the answer of %d rows has one above 63 and does not fit in a word: use version 2", a.Count))
	}
	return structs.QueryReturnValue{Vector: structs.VecT(word)}, nil
}

// v1Failure is a fault as version 1 can say it.
func v1Failure(log *slog.Logger, text structs.QueryText, err error) (structs.QueryReturnValue, error) {
	st, f := wire.Encode(err)
	switch st {
	case structs.QUERY_SYNTAX:
		log.Warn("version 1 query refused", "query", delegate.ShortText(string(text)), "problem", f.Message)
		return structs.QueryReturnValue{}, rpc.ErrGarbageArgs
	case structs.QUERY_UNAVAILABLE, structs.QUERY_DEADLINE:
		if len(f.FailedMachines) > 0 {
			return structs.QueryReturnValue{FailedMachine: string(f.FailedMachines[0])}, nil
		}
	}
	return structs.QueryReturnValue{}, systemError(text, fmt.Errorf("%v: %s", st, f.Message))
}

// systemError is SYSTEM_ERR on the wire, and the reason in the server's log.
func systemError(text structs.QueryText, why error) error {
	return fmt.Errorf("%w: version 1 query %q: %w", rpc.ErrSystem, delegate.ShortText(string(text)), why)
}
