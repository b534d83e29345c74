package client

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/rows"
	"starfish/structs"
	"starfish/vector"
	"starfish/xdr"
)

// answering is a master that answers each call with what f returns, over no
// network: arguments and results are encoded and decoded as on the wire.
type answering func(proc uint32, args []byte) (xdr.Appender, error)

func (f answering) Call(_ context.Context, _, _, proc uint32, args xdr.Appender, res xdr.DecoderFrom) error {
	var sent []byte
	var err error
	if args != nil {
		if sent, err = xdr.Marshal(args); err != nil {
			return err
		}
	}
	v, err := f(proc, sent)
	if err != nil {
		return err
	}
	got, err := xdr.Marshal(v)
	if err != nil {
		return err
	}
	return xdr.Unmarshal(got, res)
}

func fake(f answering) *Client {
	return &Client{master: structs.NewMasterProgMasterV2Client(f)}
}

func TestPutOfNoBitmapIsAnError(t *testing.T) {
	c := fake(func(uint32, []byte) (xdr.Appender, error) {
		return nil, errors.New("the master was called")
	})
	_, err := c.Put(t.Context(), 7, nil, PutOptions{})
	require.EqualError(t, err, "client: put 7: the bitmap is nil; vector.New() is the empty one")
}

func TestQuery(t *testing.T) {
	var asked structs.QueryRequest
	c := fake(func(_ uint32, args []byte) (xdr.Appender, error) {
		require.NoError(t, xdr.Unmarshal(args, &asked))
		rb, err := rows.Encode(vector.New(1, 70000), asked.Format)
		require.NoError(t, err)
		return structs.QueryResponse{Answer: structs.QueryAnswer{Count: 9, Rows: rb, Seed: 5}}, nil
	})
	a, err := c.Query(t.Context(), "P:7", QueryOptions{Deadline: time.Nanosecond, Seed: 5, FirstRow: 1, MaxRows: 2})
	require.NoError(t, err)
	require.Equal(t, structs.QueryRequest{Text: "P:7", Format: structs.BITMAP_ROARING, DeadlineMs: 1, Seed: 5, FirstRow: 1, MaxRows: 2}, asked)
	require.EqualValues(t, 9, a.Count)
	require.EqualValues(t, 5, a.Seed)
	require.Equal(t, []uint32{1, 70000}, a.Rows.Rows(0, 10))

	a, err = c.Query(t.Context(), "P:7", QueryOptions{Words: true, Deadline: math.MaxInt64})
	require.NoError(t, err)
	require.Equal(t, structs.BITMAP_WORDS, asked.Format)
	require.EqualValues(t, math.MaxUint32, asked.DeadlineMs)
	require.Equal(t, []uint32{1, 70000}, a.Rows.Rows(0, 10))

	a, err = c.Query(t.Context(), "P:7", QueryOptions{Words: true, FirstRow: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, []uint32{1<<20 + 1, 1<<20 + 70000}, a.Rows.Rows(0, 10), "a page begins at the word of its first row")

	a, err = c.Query(t.Context(), "P:7", QueryOptions{CountOnly: true})
	require.NoError(t, err)
	require.Equal(t, structs.BITMAP_NONE, asked.Format)
	require.Nil(t, a.Rows)
}

func TestRefusedCallsAreTyped(t *testing.T) {
	c := fake(func(uint32, []byte) (xdr.Appender, error) {
		return structs.QueryResponse{Status: structs.QUERY_UNAVAILABLE, Failure: structs.QueryFailure{
			Message: "vector 7 has no live holder", Vectors: []uint64{7}, VectorsTotal: 1, FailedMachines: []structs.MachineName{"127.0.0.2"},
		}}, nil
	})
	_, err := c.Query(t.Context(), "P:7", QueryOptions{})
	require.EqualError(t, err, "client: vector 7 has no live holder")
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotErrorIs(t, err, ErrDenied)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []structs.MachineName{"127.0.0.2"}, e.Failure.FailedMachines)

	require.EqualError(t, &Error{Status: structs.QUERY_DENIED}, "client: the master answers QUERY_DENIED")
	require.NotErrorIs(t, &Error{Status: 99}, ErrFailed)
}

func TestRowsThatAreNoBitmapAreAnError(t *testing.T) {
	c := fake(func(uint32, []byte) (xdr.Appender, error) {
		return structs.QueryResponse{Answer: structs.QueryAnswer{Count: 1, Rows: structs.RowBitmap{Format: structs.BITMAP_ROARING, Roaring: []byte("no")}}}, nil
	})
	_, err := c.Query(t.Context(), "P:7", QueryOptions{})
	require.ErrorContains(t, err, "client: the rows of the answer")
}

func TestMembersReadsEveryPage(t *testing.T) {
	ids := []uint64{0, 5, 9, math.MaxUint64}
	calls := 0
	c := fake(func(_ uint32, args []byte) (xdr.Appender, error) {
		calls++
		var req structs.MembersRequest
		require.NoError(t, xdr.Unmarshal(args, &req))
		for i, id := range ids {
			if id >= req.FirstId {
				return structs.MembersPage{Members: []structs.Member{{Id: id}}, More: i < len(ids)-1}, nil
			}
		}
		return structs.MembersPage{}, nil
	})
	list := func(first uint64, most int) (got []uint64) {
		calls = 0
		require.NoError(t, c.Members(t.Context(), first, func(m structs.Member) bool {
			got = append(got, m.Id)
			return len(got) < most
		}))
		return got
	}
	require.Equal(t, ids, list(0, 100))
	require.Equal(t, 4, calls)
	require.Equal(t, []uint64{9, math.MaxUint64}, list(6, 100))
	require.Equal(t, []uint64{0, 5}, list(0, 2))
	require.Equal(t, 2, calls)
	ids = nil
	require.Empty(t, list(0, 100))
}

func TestFailedCallsSayWhatWasTried(t *testing.T) {
	gone := errors.New("gone")
	c := fake(func(uint32, []byte) (xdr.Appender, error) { return nil, gone })
	_, err := c.Put(t.Context(), 7, vector.New(), PutOptions{})
	require.ErrorIs(t, err, gone)
	require.EqualError(t, err, "client: put 7: gone")
	_, err = c.Delete(t.Context(), 8)
	require.EqualError(t, err, "client: delete 8: gone")
	_, err = c.Status(t.Context())
	require.EqualError(t, err, "client: status: gone")
	_, err = c.Join(t.Context(), structs.JoinRequest{Addr: "h"})
	require.EqualError(t, err, "client: join h: gone")
	_, err = c.Remove(t.Context(), structs.RemoveChange{Addr: "h"})
	require.EqualError(t, err, "client: remove h: gone")
	require.EqualError(t, c.Members(t.Context(), 0, nil), "client: members: gone")
	var failed *CallError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "remove h", failed.Call)
	require.NotErrorIs(t, err, ErrFailed)
}

// TestLongDeadline: the caller waits for as long as the master may take.
func TestLongDeadline(t *testing.T) {
	ctx, cancel := QueryOptions{Deadline: time.Hour}.within(t.Context())
	defer cancel()
	end, ok := ctx.Deadline()
	require.True(t, ok)
	require.Greater(t, time.Until(end), time.Hour)

	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx, cancel = QueryOptions{Deadline: time.Hour}.within(short)
	defer cancel()
	end, _ = ctx.Deadline()
	require.LessOrEqual(t, time.Until(end), time.Minute)

	for _, o := range []QueryOptions{{}, {Deadline: math.MaxInt64}} {
		ctx, cancel = o.within(context.Background())
		defer cancel()
		_, ok = ctx.Deadline()
		require.False(t, ok)
	}
}

// TestDialTakesNoPort: a port is said to be one, and not a host that is not found.
func TestDialTakesNoPort(t *testing.T) {
	for _, host := range []string{"127.0.0.1:20480", "localhost:1", "[::1]:20480", ":20480"} {
		_, err := Dial(t.Context(), host)
		require.ErrorIs(t, err, errHostPort, host)
		require.ErrorAs(t, err, new(*UnreachableError))
	}
}

// A text that does not fit a call is the query's fault, and not the call's.
func TestATextThatIsTooLong(t *testing.T) {
	text := "R:" + strings.Repeat("1", structs.MAX_QUERY_TEXT-1)
	var c Client // nothing is sent
	_, err := c.Query(t.Context(), text, QueryOptions{})
	require.ErrorIs(t, err, ErrSyntax)
	require.EqualError(t, err, "client: query: the text has 65537 bytes, at most 65536 are allowed: ask for ranges, or in several queries")
	_, err = c.Explain(t.Context(), text, QueryOptions{})
	require.ErrorIs(t, err, ErrSyntax)
	require.NoError(t, checkText(text[1:]))
}
