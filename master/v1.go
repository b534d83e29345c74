package master

import (
	"context"
	"fmt"

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
	resp := h.m.query(ctx, structs.QueryRequest{Text: text, Format: structs.BITMAP_ROARING, MaxRows: wordRows})
	switch resp.Status {
	case structs.QUERY_OK:
		b, err := rows.Decode(&resp.Answer.Rows)
		if err != nil {
			return structs.QueryReturnValue{}, systemError(text, err)
		}
		word, ok := b.Word()
		if !ok {
			return structs.QueryReturnValue{}, systemError(text, fmt.Errorf("the answer of %d rows has one above 63 and does not fit in a word: use version 2", resp.Answer.Count))
		}
		return structs.QueryReturnValue{Vector: structs.VecT(word)}, nil
	case structs.QUERY_SYNTAX:
		h.m.log.Warn("version 1 query refused", "query", clipText(text), "problem", resp.Failure.Message)
		return structs.QueryReturnValue{}, rpc.ErrGarbageArgs
	case structs.QUERY_UNAVAILABLE, structs.QUERY_DEADLINE:
		if failed := resp.Failure.FailedMachines; len(failed) > 0 {
			return structs.QueryReturnValue{FailedMachine: string(failed[0])}, nil
		}
	}
	return structs.QueryReturnValue{}, systemError(text, fmt.Errorf("%v: %s", resp.Status, resp.Failure.Message))
}

// systemError is SYSTEM_ERR on the wire, and the reason in the server's log.
func systemError(text structs.QueryText, why error) error {
	return fmt.Errorf("%w: version 1 query %q: %w", rpc.ErrSystem, clipText(text), why)
}

func clipText(text structs.QueryText) string {
	const shown = 200
	if len(text) > shown {
		return string(text[:shown]) + "..."
	}
	return string(text)
}
