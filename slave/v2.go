package slave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"starfish/fault"
	"starfish/rows"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

// v2 serves SLAVE_PROG version 2: bitmaps, a deadline, and what the master
// needs.
type v2 struct{ s *Slave }

var (
	_ structs.SlaveProgSlaveV2Handler          = v2{}
	_ structs.SlaveProgSlaveV2SlaveLegAppender = v2{}
)

// HandleQuery ORs the list into the result.
func (h v2) HandleQuery(ctx context.Context, arg structs.HandleQuery2Args) (structs.RowsResponse, error) {
	sum, err := rows.Decode(&arg.Result)
	if err != nil {
		return structs.RowsResponse{}, fmt.Errorf("%w: result: %w", rpc.ErrGarbageArgs, err)
	}
	ctx, cancel := withDeadline(ctx, arg.DeadlineMs)
	defer cancel()
	var res structs.RowsResponse
	lacks := absentsFor(ctx, arg.MaxAbsent)
	if err = h.s.runRange(ctx, arg.List, structs.RANGE_CHAIN, sum, lacks); err == nil {
		res.Leg.Absent = lacks.list
		res.Leg.Rows, err = h.s.answerRows(ctx, sum, 0, arg.Format, lacks.size())
	}
	if st, f, ok := answered(ctx, err); ok {
		return structs.RowsResponse{Status: st, Failure: f}, nil
	}
	return res, err
}

// Coordinate runs the ranges and answers a page of the AND of their results.
func (h v2) Coordinate(ctx context.Context, arg structs.Coordinate2Args) (structs.Coordinate2Response, error) {
	if len(arg.Ranges) == 0 {
		return structs.Coordinate2Response{}, fmt.Errorf("%w: no ranges", rpc.ErrGarbageArgs)
	}
	ctx, cancel := withDeadline(ctx, arg.DeadlineMs)
	defer cancel()
	var res structs.Coordinate2Response
	lacks := absentsFor(ctx, arg.MaxAbsent)
	var err error
	if chained(arg.Ranges) {
		var b *vector.Bitmap
		if b, err = h.s.coordinate(ctx, arg.Ranges, lacks); err == nil {
			res.Result.Answer, err = h.s.answer(ctx, b, arg, lacks)
		}
	} else {
		res.Result.Answer, err = h.s.coordinateAtOnce(ctx, arg, lacks)
	}
	res.Result.Absent = lacks.list
	if st, f, ok := answered(ctx, err); ok {
		return structs.Coordinate2Response{Status: st, Failure: f}, nil
	}
	return res, err
}

// chained says that all ranges shall be run hop by hop.
func chained(ranges []structs.RangePlan) bool {
	return !slices.ContainsFunc(ranges, func(r structs.RangePlan) bool { return r.Strategy != structs.RANGE_CHAIN })
}

// answer is a query's result as the caller wants it.
func (s *Slave) answer(ctx context.Context, b *vector.Bitmap, arg structs.Coordinate2Args, lacks *absents) (a structs.QueryAnswer, err error) {
	a.Count = b.Count()
	if arg.FirstRow > 0 || arg.MaxRows > 0 {
		b = b.Page(arg.FirstRow, arg.MaxRows)
	}
	a.Rows, err = s.answerRows(ctx, b, arg.FirstRow, arg.Format, lacks.size())
	return a, err
}

// withDeadline gives a call the time that its caller has left.
func withDeadline(ctx context.Context, ms uint32) (context.Context, context.CancelFunc) {
	if ms == 0 {
		return context.WithTimeout(ctx, DefaultDeadline)
	}
	return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
}

// answerRows encodes an answer, or its page from row first on, within what the
// transport carries beside more bytes.
func (s *Slave) answerRows(ctx context.Context, b *vector.Bitmap, first uint64, format structs.RowBitmapFormat, more uint64) (structs.RowBitmap, error) {
	const around = 64 // bytes of the reply besides all that, at most
	if size := rows.SizeFrom(b, first, format) + more; overUDP(ctx) && size+around > maxUDPAnswer {
		return structs.RowBitmap{}, fail(fault.ErrTooLarge, fmt.Sprintf("the answer takes %d bytes and UDP carries %d: use tcp", size, maxUDPAnswer))
	}
	var w structs.RowBitmap
	err := s.compute(ctx, func() (err error) {
		w, err = rows.EncodeFrom(b, first, format)
		return err
	})
	switch {
	case errors.Is(err, rows.ErrTooLarge):
		return w, fail(fault.ErrTooLarge, err.Error())
	case ctx.Err() != nil:
		return w, late(ctx)
	case err != nil:
		return w, fmt.Errorf("slave: answer: %w", err)
	}
	return w, nil
}

func overUDP(ctx context.Context) bool {
	call := rpc.CallFromContext(ctx)
	return call != nil && call.Network == "udp"
}
