package peer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPatientEndsAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("silent")
		ctx, cancel := patient(t.Context(), time.Second, why)
		defer cancel()
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, ctx.Err())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, why, context.Cause(ctx))
	})
}

func TestPatientEndsWithItsParent(t *testing.T) {
	parent, end := context.WithCancel(t.Context())
	ctx, cancel := patient(parent, time.Hour, errors.New("silent"))
	defer cancel()
	end()
	<-ctx.Done()
	require.Equal(t, context.Canceled, context.Cause(ctx))
}

// A process that was stopped for longer than the timeout has not heard whether
// the other one answered: it looks once more.
func TestPatientDoesNotCountTimeInWhichItDidNotRun(t *testing.T) {
	ended := false
	begin := time.Now()
	p := &patience{step: time.Second, last: begin, timer: time.NewTimer(time.Hour), end: func() { ended = true }}
	defer p.stop()
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	p.tick(at(1))
	p.tick(at(2))
	p.tick(at(3))
	p.tick(at(60)) // stopped meanwhile
	require.False(t, ended)
	p.tick(at(61))
	require.True(t, ended)
	p.tick(at(62)) // too late to matter
}

// A process that never has CPU gives up all the same.
func TestPatientIsNotEndless(t *testing.T) {
	ended := false
	now := time.Now()
	p := &patience{step: time.Second, last: now, timer: time.NewTimer(time.Hour), end: func() { ended = true }}
	defer p.stop()
	for range patienceSteps + patienceExtra {
		require.False(t, ended)
		now = now.Add(time.Minute)
		p.tick(now)
	}
	require.True(t, ended)
}
