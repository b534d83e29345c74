package number

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// odd is what no number may look like.
var odd = []string{"", " ", "+5", "1_000", "0x10", "0b1", "0o7", "1e3", "5.", "5 ", " 5", "5a", "٣", "--5", "5\x00", "18446744073709551616"}

func TestParse(t *testing.T) {
	for s, want := range map[string]uint64{"0": 0, "7": 7, "010": 10, "0013": 13, "00": 0, "18446744073709551615": math.MaxUint64} {
		n, err := Parse(s, 64)
		require.NoError(t, err, s)
		require.Equal(t, want, n, s)
	}
	for _, s := range append(odd, "-5") {
		_, err := Parse(s, 64)
		require.ErrorContains(t, err, "is not a number from 0 to 18446744073709551615", "%q", s)
	}
	_, err := Parse("4294967296", 32)
	require.EqualError(t, err, `"4294967296" is not a number from 0 to 4294967295`)
	_, err = Parse(strings.Repeat("9", 1000), 64)
	require.Less(t, len(err.Error()), 200)
}

func TestParseSigned(t *testing.T) {
	for s, want := range map[string]int64{"-010": -10, "010": 10, "-2147483648": math.MinInt32, "2147483647": math.MaxInt32} {
		n, err := ParseSigned(s, 32)
		require.NoError(t, err, s)
		require.Equal(t, want, n, s)
	}
	for _, s := range append(odd, "2147483648", "-2147483649") {
		_, err := ParseSigned(s, 32)
		require.ErrorContains(t, err, "is not a number from -2147483648 to 2147483647", "%q", s)
	}
}

func TestWord(t *testing.T) {
	for s, want := range map[string]uint64{"010": 10, "0x10": 16, "0XfF": 255, "18446744073709551615": math.MaxUint64} {
		w, err := Word(s)
		require.NoError(t, err, s)
		require.Equal(t, want, w, s)
	}
	for _, s := range []string{"", "0x", "0x_1", "0x+1", "+1", "ff", "0b1", "0o7", "1_0", "-1", "0x1ffffffffffffffff"} {
		_, err := Word(s)
		require.ErrorContains(t, err, "not a 64-bit number", "%q", s)
	}
}

func TestSpan(t *testing.T) {
	for s, want := range map[string][2]uint64{"5": {5, 5}, "1-5": {1, 5}, "010-011": {10, 11}, "1 - 5": {1, 5}, "5-5": {5, 5}} {
		first, last, err := Span(s, 32)
		require.NoError(t, err, s)
		require.Equal(t, want, [2]uint64{first, last}, s)
	}
	for _, s := range []string{"", "-", "1-", "-1", "1--2", "1-2-3", "1-0x2", "1-4294967296", "+1-2"} {
		_, _, err := Span(s, 32)
		require.ErrorContains(t, err, "is not a number", "%q", s)
	}
	_, _, err := Span("9-3", 32)
	require.ErrorIs(t, err, ErrSpan)
}

func TestFlags(t *testing.T) {
	var (
		i   int
		i32 int32
		u16 uint16
		u64 uint64
	)
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	Var(fs, &i, "i", 256, "")
	Var(fs, &i32, "i32", 0, "")
	Var(fs, &u16, "u16", 111, "")
	Var(fs, &u64, "u64", 0, "")
	require.Equal(t, 256, i)
	require.NoError(t, fs.Parse([]string{"--i=-010", "--i32", "-5", "--u16", "0111", "--u64", "18446744073709551615"}))
	require.Equal(t, "-10 -5 111 18446744073709551615", fmt.Sprint(i, i32, u16, u64))
	require.ErrorContains(t, fs.Parse([]string{"--u16", "65536"}), `invalid argument "65536" for "--u16" flag: "65536" is not a number from 0 to 65535`)
	require.Error(t, fs.Parse([]string{"--u64", "0x10"}))
	require.Error(t, fs.Parse([]string{"--u64", "-1"}))
	require.Error(t, fs.Parse([]string{"--i", "+1"}))
	require.Contains(t, fs.FlagUsages(), "--i number")
	require.NotContains(t, fs.Lookup("u64").DefValue, "nil")
}

func TestFraction(t *testing.T) {
	var r float64
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	FractionVar(fs, &r, "rate", 100, "")
	require.InDelta(t, 100, r, 0)
	for s, want := range map[string]float64{"0": 0, "007": 7, "0.5": 0.5, "-1": -1, ".5": 0.5} {
		require.NoError(t, fs.Parse([]string{"--rate=" + s}), s)
		require.InDelta(t, want, r, 0, s)
	}
	for _, s := range append(odd[:12:12], "nan", "inf", "-inf", "0x1p3", "1e3", "1.2.3", ".", "-") {
		if s != "5." {
			require.ErrorContains(t, fs.Parse([]string{"--rate=" + s}), "is not a number like 5 or 0.5", "%q", s)
		}
	}
	require.Contains(t, fs.FlagUsages(), "(default 100)")
}

// FuzzSpan: whatever is read is what digits say.
func FuzzSpan(f *testing.F) {
	for _, s := range append(odd, "1-5", "010-011", "9-3", "0", "1-", "-") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, last, err := Span(s, 64)
		if err != nil {
			return
		}
		require.LessOrEqual(t, first, last)
		lo, hi, isSpan := strings.Cut(s, "-")
		if !isSpan {
			hi = lo
		}
		digits := func(s string) string {
			s = strings.TrimSpace(s)
			return strings.TrimLeft(s[:len(s)-1], "0") + s[len(s)-1:]
		}
		require.Equal(t, fmt.Sprint(first), digits(lo))
		require.Equal(t, fmt.Sprint(last), digits(hi))
	})
}
