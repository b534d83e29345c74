package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"starfish/fault"
	"starfish/structs"
)

func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := fault.New(fault.Kind(rapid.Uint32Range(1, 8).Draw(t, "kind")), "%s", rapid.StringMatching(`[a-z][a-z ]{0,40}`).Draw(t, "message"))
		in.Position = rapid.IntRange(0, 70000).Draw(t, "position")
		in.About(rapid.Uint64().Draw(t, "total"), rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "ids")...)
		in.On(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,9}`), 0, 5).Draw(t, "machines")...)
		st, f := Encode(fmt.Errorf("put in: %w", in))
		out := fault.Of(Decode(st, f))
		require.ErrorIs(t, out, in.Kind)
		require.Equal(t, in.Message, out.Message)
		require.Equal(t, in.Position, out.Position)
		require.ElementsMatch(t, in.IDs, out.IDs)
		require.Equal(t, in.Total, out.Total)
		require.ElementsMatch(t, in.Machines, out.Machines)
	})
}

// TestBounds: whatever an error says, its answer can be written.
func TestBounds(t *testing.T) {
	big := fault.New(fault.ErrUnavailable, "%s", strings.Repeat("ü", 5000)).About(1<<60, make([]uint64, 5000)...)
	for i := range 5000 {
		big.Machines = append(big.Machines, strings.Repeat("m", 300)+fmt.Sprint(i))
	}
	for _, err := range []error{big, errors.New(strings.Repeat("x", 5000)), &fault.Error{Kind: 77, Position: -1}, &fault.Error{}} {
		st, f := Encode(err)
		require.NotEqual(t, structs.QUERY_OK, st)
		_, err := structs.NewQueryResponseFailure(st, f).AppendXDR(nil)
		require.NoError(t, err)
	}
	_, f := Encode(big)
	require.Len(t, f.Vectors, structs.MAX_LISTED)
	require.Len(t, f.FailedMachines, structs.MAX_LISTED)
	require.EqualValues(t, 1<<60, f.VectorsTotal)

	// And what others write without bounds is bounded here.
	many := structs.QueryFailure{Vectors: make([]uint64, 5000), FailedMachines: make([]structs.MachineName, 5000)}
	e := fault.Of(Decode(structs.QUERY_NOT_HELD, many))
	require.Len(t, e.IDs, structs.MAX_LISTED)
	require.Len(t, e.Machines, 1)
}

func TestNothingAndNoFault(t *testing.T) {
	st, f := Encode(nil)
	require.Equal(t, structs.QUERY_OK, st)
	require.Zero(t, f)
	require.NoError(t, Decode(st, f))
	st, f = Encode(errors.New("master: catalog: disk full"))
	require.Equal(t, structs.QUERY_FAILED, st)
	require.Equal(t, "disk full", f.Message)
	require.EqualError(t, Decode(structs.QUERY_DENIED, structs.QueryFailure{}), "QUERY_DENIED")
}

// TestNumbers: the kinds are the statuses of structs.x.
func TestNumbers(t *testing.T) {
	for kind, st := range map[fault.Kind]structs.QueryStatus{
		fault.ErrSyntax: structs.QUERY_SYNTAX, fault.ErrNoSuchVector: structs.QUERY_NO_SUCH_VECTOR,
		fault.ErrUnavailable: structs.QUERY_UNAVAILABLE, fault.ErrDeadline: structs.QUERY_DEADLINE,
		fault.ErrTooLarge: structs.QUERY_TOO_LARGE, fault.ErrFailed: structs.QUERY_FAILED,
		fault.ErrNotHeld: structs.QUERY_NOT_HELD, fault.ErrDenied: structs.QUERY_DENIED,
	} {
		got, _ := Encode(&fault.Error{Kind: kind})
		require.Equal(t, st, got)
		require.ErrorIs(t, Decode(st, structs.QueryFailure{}), kind)
	}
}
