package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestKindsAreSentinels(t *testing.T) {
	cause := errors.New("disk full")
	err := fmt.Errorf("master: %w", New(ErrUnavailable, "vector %d has no live holder", 7).About(1, 7).On("10.0.0.1", "10.0.0.1").Because(cause))
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotErrorIs(t, err, ErrFailed)
	require.ErrorIs(t, err, cause)
	f := Of(err)
	require.Equal(t, "vector 7 has no live holder", f.Error())
	require.Equal(t, []string{"10.0.0.1"}, f.Machines)
	require.Equal(t, []uint64{7}, f.IDs)
	require.Nil(t, Of(cause))
	require.Equal(t, "denied", (&Error{Kind: ErrDenied}).Error())
	require.Equal(t, "fault 77", Kind(77).Error())
}

func TestJoin(t *testing.T) {
	dead := func(m string) error { return fmt.Errorf("part: %w", New(ErrUnavailable, "%s is down", m).On(m)) }
	lacks := New(ErrNotHeld, "lacks 3").About(3, 1, 2, 3).On("b")
	other := errors.New("other")
	given := fmt.Errorf("given up: %w", context.Canceled)
	for _, c := range []struct {
		name string
		errs []error
		want string
	}{
		{"nothing", nil, ""},
		{"nothing failed", []error{nil, nil}, ""},
		{"a fault tells more than another error", []error{other, lacks}, "lacks 3"},
		{"the dead before those that lack", []error{lacks, dead("a")}, "a is down"},
		{"not that the call was given up", []error{given, other}, "other"},
		{"unless that is all", []error{given}, "given up: context canceled"},
		{"the first of a rank speaks", []error{dead("a"), dead("b")}, "a is down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Join(c.errs)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
	require.Equal(t, []string{"a", "b"}, Of(Join([]error{dead("a"), nil, dead("b"), dead("a")})).Machines)
	two := Of(Join([]error{lacks, lacks}))
	require.Equal(t, uint64(6), two.Total)
	require.Equal(t, []uint64{1, 2, 3, 1, 2, 3}, two.IDs)
	require.Equal(t, []uint64{1, 2, 3}, lacks.IDs, "the parts stay as they were")
}

func TestJoinKeepsABoundedListOfIDs(t *testing.T) {
	many := New(ErrNotHeld, "many").About(5000, make([]uint64, 700)...)
	sum := Of(Join([]error{many, many}))
	require.Len(t, sum.IDs, maxIDs)
	require.Equal(t, uint64(10000), sum.Total)
}

func TestClip(t *testing.T) {
	require.Equal(t, "short", Clip("short", 5))
	require.Equal(t, "ab...", Clip("abcdefgh", 5))
	cut := Clip(strings.Repeat("ü", 40), 20)
	require.True(t, utf8.ValidString(cut))
	require.LessOrEqual(t, len(cut), 20)
}

func TestPlain(t *testing.T) {
	for message, want := range map[string]string{
		"":          "",
		"master: x": "x",
		"slave: open the store: store: disk: in use":       "open the store: in use",
		"master: open the catalog: catalog: catalog: full": "open the catalog: full",
		"slave: a\nslave: rpc: b":                          "a\nb",
		"query: byte 5: expected":                          "query: byte 5: expected",
		"the rpc: a":                                       "the rpc: a",
		"not noted (catalog: full), rpc: a; rpc: b":        "not noted (full), a; b",
		"rpc:3: no colon":                                  "rpc:3: no colon",
	} {
		require.Equal(t, want, Plain(message))
	}
}
