package portmap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(10, 3)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range 3 {
		require.True(t, l.allow(a, now))
	}
	require.False(t, l.allow(a, now), "the burst is over")
	require.True(t, l.allow(b, now), "another source")
	now = now.Add(100 * time.Millisecond)
	require.True(t, l.allow(a, now), "a token came back")
	require.False(t, l.allow(a, now))
	now = now.Add(time.Hour)
	for range 3 {
		require.True(t, l.allow(a, now))
	}
	require.False(t, l.allow(a, now), "no more than the burst")
}

func TestLimiterSources(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimiter(1, 1)
	require.True(t, l.allow(netip.MustParseAddr("2001:db8::1"), now))
	require.False(t, l.allow(netip.MustParseAddr("2001:db8::ffff:1"), now), "the same /64")
	require.True(t, l.allow(netip.MustParseAddr("2001:db8:0:1::1"), now))
	require.True(t, l.allow(netip.MustParseAddr("::ffff:192.0.2.1"), now))
	require.False(t, l.allow(netip.MustParseAddr("192.0.2.1"), now), "the same address")

	// Forged sources in any number cost no more memory.
	for i := range uint32(3 * MaxSources) {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], 0x0a000000+i)
		l.allow(netip.AddrFrom4(ip), now)
	}
	require.Len(t, l.sources, MaxSources)
	require.Len(t, l.ring, MaxSources)
	require.True(t, l.allow(netip.MustParseAddr("192.0.2.1"), now), "forgotten")
}

func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	q := newQuiet(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	log := slog.New(q).With("part", "x")
	now := time.Unix(1000, 0)
	write := func(level slog.Level, text string) {
		require.NoError(t, log.Handler().Handle(t.Context(), slog.NewRecord(now, level, text, 0)))
	}
	for i := range logBurst + 100 {
		write(slog.LevelWarn, fmt.Sprint("line ", i))
	}
	write(slog.LevelDebug, "detail")
	require.Equal(t, logBurst+1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "detail")
	now = now.Add(time.Second)
	out.Reset()
	write(slog.LevelWarn, "again")
	require.Contains(t, out.String(), `msg=again part=x left_out=100`)
	out.Reset()
	now = now.Add(time.Second)
	write(slog.LevelWarn, "once more")
	require.NotContains(t, out.String(), "left_out")
}

func TestStatsAreBounded(t *testing.T) {
	var s stats
	for i := range uint32(MaxStats + 10) {
		s.lookedUp(RPCBVERS4, i, 1, "udp", false)
		s.passedOn(RPCBVERS4, remoteCall{prog: i, vers: 1, proc: 1}, "udp", true)
	}
	s.lookedUp(RPCBVERS4, MaxStats+9, 1, "udp", true)
	s.called(RPCBVERS, RPCB_HIGHPROC_3+1)
	got := s.answer()[RPCBVERS_4_STAT]
	n := uint32(0)
	for e := got.Addrinfo; e != nil; e = e.Next {
		require.Equal(t, MaxStats+9-n, e.Prog, "newest first")
		n++
	}
	require.EqualValues(t, MaxStats, n)
	require.EqualValues(t, 1, got.Addrinfo.Success)
	require.EqualValues(t, 1, got.Addrinfo.Failure)
	n = 0
	for e := got.Rmtinfo; e != nil; e = e.Next {
		n++
	}
	require.EqualValues(t, MaxStats, n)
	require.Zero(t, s.answer()[RPCBVERS_3_STAT].Info)
}
