package delegate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
	"starfish/rows"
	"starfish/rpc"
	"starfish/vector"
)

// cluster is two slaves that hold vector 7, of which the first answers with one
// error, once.
type cluster struct {
	catalog.Catalog
	errs   []error // of the calls, in turn; then it answers
	calls  []string
	blamed []string
}

func (c *cluster) next(machine string) error {
	c.calls = append(c.calls, machine)
	if len(c.errs) == 0 {
		return nil
	}
	err := c.errs[0]
	c.errs = c.errs[1:]
	return err
}

func (c *cluster) Ask(_ context.Context, machine string, _ uint64) (*vector.Bitmap, []peer.Absent, error) {
	return vector.New(5), nil, c.next(machine)
}

func (c *cluster) Word(context.Context, string, uint64, time.Duration) (uint64, error) {
	return 0, errors.New("no C handler")
}

func (c *cluster) Coordinate(_ context.Context, machine string, plan peer.Coordination) (peer.Coordinated, error) {
	w, err := rows.Encode(vector.New(5), plan.Format)
	if err != nil {
		return peer.Coordinated{}, err
	}
	return peer.Coordinated{Count: 1, Rows: peer.Rows(w)}, c.next(machine)
}

func (c *cluster) Blame(addr, _ string) { c.blamed = append(c.blamed, addr) }
func (c *cluster) Verdicts(addrs []string) []<-chan struct{} {
	return make([]<-chan struct{}, len(addrs))
}
func (c *cluster) Verify(context.Context, string, []uint64) error { return nil }
func (c *cluster) RecompareSoon(string)                           {}
func (c *cluster) Stalls() <-chan struct{}                        { return nil }
func (c *cluster) Waits(catalog.Intent, *catalog.Snapshot) ([]string, bool) {
	return nil, false
}

func newCluster(t *testing.T, errs ...error) (*cluster, *Delegate) {
	c := &cluster{Catalog: catalog.Over(catalog.NewMemory()), errs: errs}
	t.Cleanup(func() { c.Close() })
	for _, addr := range []string{"a", "b"} {
		require.NoError(t, c.AddSlave(t.Context(), catalog.Slave{Addr: addr, Protocol: 2}, nil))
		c.SetState(addr, catalog.Serving, "")
	}
	in, err := c.Begin(t.Context(), catalog.Intent{ID: 7, Holders: []string{"a", "b"}})
	require.NoError(t, err)
	require.NoError(t, c.Finish(t.Context(), 7, in.Revision))
	return c, New(Config{Views: c, Slaves: c, Health: c, Inventory: c, Writes: c, Log: slog.New(slog.DiscardHandler), Deadline: time.Minute})
}

// TestOutcomes: what a call's error means for the machine, for the query, and for
// the user.
func TestOutcomes(t *testing.T) {
	refused := fault.New
	for _, c := range []struct {
		name   string
		err    error
		blamed bool       // for all queries
		kind   fault.Kind // 0: answered by the other one
		says   string
	}{
		{"Dead", &peer.FailedError{Err: errors.New("connection refused")}, true, 0, ""},
		{"NoReplyOfOurs", errors.New("what is that"), true, 0, ""},
		{"AnotherMachineIsDead", refused(fault.ErrUnavailable, "c is down").On("c"), true, 0, ""},
		{"CouldNot", refused(fault.ErrFailed, "c has another release").On("c"), false, 0, ""},
		{"NamesNothing", refused(fault.ErrNotHeld, "not held"), false, 0, ""},
		{"Late", refused(fault.ErrDeadline, "late"), false, fault.ErrDeadline, "longer deadline"},
		{"FailedByItself", rpc.ErrSystem, false, fault.ErrFailed, "its log says why"},
		{"NobodyToBlame", refused(fault.ErrFailed, "no memory"), false, fault.ErrFailed, "no memory"},
		{"TooLarge", &peer.TooLargeError{What: "takes 70 bytes"}, false, fault.ErrTooLarge, "takes 70 bytes: ask in smaller ranges"},
		{"NotSent", rpc.ErrTooLong, false, fault.ErrTooLarge, "smaller ranges"},
	} {
		for _, text := range []string{"P:7", "R:7"} {
			t.Run(c.name+text[:1], func(t *testing.T) {
				cl, d := newCluster(t, c.err)
				a, err := d.Query(t.Context(), Request{Text: text, Format: peer.Words})
				require.Equal(t, c.blamed, len(cl.blamed) > 0)
				if c.kind != 0 {
					require.ErrorIs(t, err, c.kind)
					require.Contains(t, err.Error(), c.says)
					require.Len(t, cl.calls, 1, "another plan would end the same way")
					return
				}
				require.NoError(t, err)
				require.EqualValues(t, 1, a.Count)
				require.Equal(t, []uint64{32}, a.Rows.Words)
				require.NotZero(t, a.Seed)
				require.Len(t, cl.calls, 2)
			})
		}
	}
}

// TestNobodyIsLeft: where both holders fail the error names both.
func TestNobodyIsLeft(t *testing.T) {
	dead := &peer.FailedError{Err: errors.New("connection refused")}
	var errs []error
	for range 20 {
		errs = append(errs, dead)
	}
	c, d := newCluster(t, errs...)
	_, err := d.Query(t.Context(), Request{Text: "P:7"})
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.ElementsMatch(t, []string{"a", "b"}, fault.Of(err).Machines)
	require.LessOrEqual(t, len(c.calls), 2*(1+maxSpared))
	_, err = d.Query(t.Context(), Request{Text: "P:8"})
	require.ErrorIs(t, err, fault.ErrNoSuchVector)
	_, err = d.Query(t.Context(), Request{Text: "P:"})
	require.ErrorIs(t, err, fault.ErrSyntax)
	require.Positive(t, fault.Of(err).Position)
}
