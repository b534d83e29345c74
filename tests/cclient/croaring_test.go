//go:build linux

package cclient_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
	"starfish/vector"
)

// croaring compiles the program that has CRoaring read and write streams.
func croaring(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/usr/include/roaring/roaring.h"); err != nil {
		cpeer.Unavailable(t, "CRoaring's headers are missing (apt install libroaring-dev)")
	}
	source, err := filepath.Abs("../../cgo/roaring/croaring_check.c")
	require.NoError(t, err)
	return cpeer.Compile(t, t.TempDir(), "croaring_check", []string{source, "-lroaring"}, "-Wall", "-Wextra", "-Werror")
}

// pipe runs a program with stdin.
func pipe(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	return out
}

// sets are rows of each shape that a container has: few, many, runs, all; and
// the ends of the range.
func sets() map[string][]uint32 {
	r := rand.New(rand.NewPCG(1, 2))
	sets := map[string][]uint32{
		"none":     nil,
		"the ends": {0, 1<<32 - 1},
		"edges":    {65535, 65536, 131071, 131072},
	}
	for row := uint32(0); row < 70_000; row++ {
		sets["a run over a container"] = append(sets["a run over a container"], row+60_000)
		if row%2 == 0 {
			sets["every second row"] = append(sets["every second row"], row)
		}
		if r.IntN(100) == 0 {
			sets["few"] = append(sets["few"], row*60_000)
		}
		if row/1000%3 == 0 {
			sets["runs"] = append(sets["runs"], 1<<31+row)
		}
	}
	return sets
}

func lines(rows []uint32) []byte {
	var b bytes.Buffer
	for _, row := range rows {
		fmt.Fprintln(&b, row)
	}
	return b.Bytes()
}

func TestCRoaringReadsOurs(t *testing.T) {
	check := croaring(t)
	for name, rows := range sets() {
		stream := vector.New(rows...).AppendRoaring(nil)
		require.Equal(t, string(lines(rows)), string(pipe(t, stream, check, "rows")), name)
	}
}

func TestWeReadCRoarings(t *testing.T) {
	check := croaring(t)
	for name, rows := range sets() {
		for _, how := range [][]string{{"write"}, {"write", "--run"}} {
			b, err := vector.ReadRoaring(pipe(t, lines(rows), check, how...))
			require.NoError(t, err, "%s: %q", name, how)
			require.True(t, vector.New(rows...).Equal(b), "%s: %q", name, how)
		}
	}
}

// TestCRoaringOverTheWire takes CRoaring's streams as puts, and gives it
// answers.
func TestCRoaringOverTheWire(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	check := croaring(t)
	startCluster(t)
	c := cluster.MustDial(t)
	id := uint64(0)
	for name, rows := range sets() {
		id++
		put, err := c.MasterPut(t.Context(), structs.PutRequest{Id: id, Rows: structs.RowBitmap{
			Format: structs.BITMAP_ROARING, Roaring: pipe(t, lines(rows), check, "write", "--run"),
		}})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, put.Status, "%+v", put.Failure)
		got, err := c.Query(t.Context(), fmt.Sprint("P:", id), structs.BITMAP_ROARING)
		require.NoError(t, err)
		require.EqualValues(t, len(rows), got.Count)
		require.Equal(t, string(lines(rows)), string(pipe(t, got.Rows.Roaring, check, "rows")), name)
	}
	all, err := c.Query(t.Context(), "R:*", structs.BITMAP_ROARING)
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(pipe(t, all.Rows.Roaring, check, "read")), " sum ")
	require.Equal(t, fmt.Sprint("count ", all.Count), first)
}
