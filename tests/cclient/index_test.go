//go:build linux

package cclient_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/cluster"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
	"starfish/vector"
)

const host = "127.0.0.1"

// ranges writes rows as the program takes them, 1,5,9-12.
func ranges(rows []uint32) string {
	var items []string
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1] == rows[j]+1 {
			j++
		}
		item := strconv.FormatUint(uint64(rows[i]), 10)
		if j > i {
			item += "-" + strconv.FormatUint(uint64(rows[j]), 10)
		}
		items = append(items, item)
		i = j + 1
	}
	return strings.Join(items, ",")
}

// printed is an answer as the program prints it.
func printed(rows []uint32) string {
	var b strings.Builder
	for i, row := range rows {
		if i == 0 {
			b.WriteString("rows")
		}
		fmt.Fprintf(&b, " %d", row)
	}
	if len(rows) > 0 {
		b.WriteByte('\n')
	}
	return fmt.Sprintf("%scount %d\n", b.String(), len(rows))
}

// someRows are every step-th of n rows from first on.
func someRows(first uint32, n int, step uint32) (rows []uint32) {
	for i := range n {
		rows = append(rows, first+uint32(i)*step)
	}
	return rows
}

// TestIndexInC puts, deletes and reads as a database system in C does: what it
// puts in either format is what a Go client reads, and its pages put together are
// the whole answer, wherever they begin.
func TestIndexInC(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	startCluster(t)
	c := cluster.MustDial(t)
	say := func(args ...string) string { return answer(t, nil, p.index(), append([]string{host}, args...)...) }
	rows := func(id uint64) []uint32 {
		a, err := c.Query(t.Context(), fmt.Sprint("P:", id), structs.BITMAP_ROARING)
		require.NoError(t, err)
		b, err := vector.ReadRoaring(a.Rows.Roaring)
		require.NoError(t, err)
		return b.Rows(0, 0)
	}

	sets := map[uint64][]uint32{
		1: nil, 2: {0}, 3: {63, 64}, 4: {1, 5, 9, 10, 11, 12, 200}, 5: {65535, 65536},
		6: someRows(7, 4096, 3), 7: someRows(0, 4097, 2), // the last of a small container, the first of a large one
		8: someRows(65536, 65536, 1), 9: someRows(1_000_001, 5000, 97),
	}
	for id, want := range sets {
		for _, how := range []string{"put", "put-roaring"} {
			require.Contains(t, say(how, fmt.Sprint(id), ranges(want)), "revision ")
			require.Equal(t, append([]uint32{}, want...), append([]uint32{}, rows(id)...), "%s %d", how, id)
		}
	}
	high := []uint32{5, 3_999_999_999, 4_000_000_000, 1<<32 - 1}
	say("put-roaring", "10", ranges(high))
	require.Equal(t, high, rows(10))

	t.Run("pages", func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 8))
		for id, want := range sets {
			for _, page := range []int{1 + r.IntN(60) + len(want)/40, 1 + len(want), max(1, len(want)), 100_000} {
				for _, format := range []string{"-w", ""} {
					args := []string{"-p", fmt.Sprint(page), host, "query", fmt.Sprint("P:", id)}
					require.Equal(t, printed(want), answer(t, nil, p.index(), strings.Fields(format+" "+strings.Join(args, " "))...), "%d rows a page", page)
				}
			}
		}
		require.Equal(t, printed(high), say("query", "P:10"), "rows that lie far apart")
		o := run(t, nil, p.index(), "-w", host, "query", "P:10")
		require.Equal(t, 1, o.code)
		require.Contains(t, o.stderr, "(first_row 0 with max_rows 1 fits)")
	})
	t.Run("members", func(t *testing.T) {
		var want strings.Builder
		for id := range uint64(10) {
			fmt.Fprintf(&want, "%d \n", id+1)
		}
		require.NoError(t, c.Put(t.Context(), 1<<64-1, nil))
		fmt.Fprintf(&want, "%d \n", uint64(1<<64-1))
		for _, page := range []string{"1", "3", "11", "100"} {
			var ids strings.Builder
			for l := range strings.Lines(answer(t, nil, p.index(), "-p", page, host, "members")) {
				id, holders, _ := strings.Cut(l, " ")
				require.Contains(t, holders, "127.0.0.")
				fmt.Fprintln(&ids, id, "")
			}
			require.Equal(t, want.String(), ids.String(), "%s a page", page)
		}
		require.Contains(t, say("delete", fmt.Sprint(uint64(1<<64-1))), "revision ")
	})
	t.Run("status", func(t *testing.T) {
		status := say("status")
		for i := range 3 {
			require.Contains(t, status, "slave "+cluster.Addr(i)+" serving members ")
		}
		require.Contains(t, status, "\nvectors 10 unavailable 0\n")
	})
	t.Run("threads", func(t *testing.T) {
		sum := uint64(0)
		for _, row := range append(append([]uint32{}, sets[6]...), sets[4]...) {
			sum += uint64(row)
		}
		require.Equal(t, fmt.Sprintf("8 threads: rows %d sum %d\n", len(sets[6])+len(sets[4]), sum),
			answer(t, nil, p.index(), "-p", "100", host, "threads", "8", "P:6", "P:4"))
		o := run(t, nil, p.index(), host, "threads", "2", "P:4", "P:77")
		require.Equal(t, 1, o.code)
		require.Equal(t, 2, strings.Count(o.stderr, "no such vector: 77"))
	})
	t.Run("errors", func(t *testing.T) {
		for text, want := range map[string]string{
			"R:0-&3":                               "  R:0-&3\n      ^\n",
			"R:1&\n \tx":                           "  R:1&   x\n         ^\n",
			"R:1&" + "é":                           "  R:1&é\n      ^\n",
			"R:" + strings.Repeat("1,", 500) + "x": "  " + strings.Repeat("1,", 500)[1000-59:] + "x\n  " + strings.Repeat(" ", 59) + "^\n",
		} {
			o := run(t, nil, p.index(), host, "query", text)
			require.Equal(t, 1, o.code)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, "index: query: byte ")
			require.Contains(t, o.stderr, want)
		}
		require.Contains(t, say("delete", "1"), "revision ")
		require.Equal(t, outcome{"", "index: delete of 1: there is no such vector\n", 1}, run(t, nil, p.index(), host, "delete", "1"))
		o := run(t, nil, p.index(), host, "put", "1", "4000000000")
		require.Equal(t, 1, o.code)
		require.Contains(t, o.stderr, "use put-roaring")
	})
	t.Run("valgrind", func(t *testing.T) {
		for _, args := range [][]string{
			{"put", "20", "1,5-90"}, {"put-roaring", "21", "1,5-5000,70000"}, {"query", "R:20-21", "R:9-", "P:77", "P:10"}, {"-w", "query", "P:6"},
			{"status"}, {"members"}, {"threads", "4", "P:6", "P:10"}, {"delete", "20"}, {"delete", "20"}, {"put", "1", "9,8"},
		} {
			flags := []string{"-p", "1000"}
			if args[0] == "-w" {
				flags, args = append(flags, "-w"), args[1:]
			}
			o := valgrind(t, nil, p.index(), append(append(flags, host), args...)...)
			require.Contains(t, []int{0, 1, 2}, o.code)
		}
	})
}

// TestIndexOutlivesTheMaster: a program that keeps its CLIENT goes on after the
// master was started anew, and is not ended by SIGPIPE.
func TestIndexOutlivesTheMaster(t *testing.T) {
	p := build(t)
	if !netns.Enter(t) {
		return
	}
	c := cluster.New(t, cluster.Options{})
	require.NoError(t, cluster.MustDial(t).Put(t.Context(), 1, []uint64{6}))
	cmd := exec.Command(p.index(), host, "query", "-")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	program := cpeer.Start(t, cmd)
	ask := func(text, want string, times int) {
		fmt.Fprintln(in, text)
		program.WaitForN(t, want, times, wait)
	}
	ask("P:1", "rows 1 2\ncount 2\n", 1)
	c.Master.Kill(t)
	ask("P:1", "127.0.0.1: RPC: ", 1) // nobody is there
	ask("P:1", "127.0.0.1: RPC: ", 2)
	c.Master.Restart(t)
	c.AwaitServing(t)
	ask("P:1", "rows 1 2\ncount 2\n", 2)
	c.Master.Kill(t)
	c.Master.Restart(t)
	c.AwaitServing(t)
	ask("P:1", "rows 1 2\ncount 2\n", 3) // over a new connection, and nothing was said
	require.NoError(t, in.Close())
	require.Error(t, program.Wait(t, wait), "two queries failed")
	require.Equal(t, 2, strings.Count(program.Output(), "RPC: "))
}

// TestPagesOfBytes has the program's reader read valid streams, cut ones and
// changed ones: it reads the first and survives the others.
func TestPagesOfBytes(t *testing.T) {
	p := build(t)
	r := rand.New(rand.NewPCG(2, 9))
	var in, want bytes.Buffer
	add := func(stream []byte) {
		in.Write(binary.BigEndian.AppendUint32(nil, uint32(len(stream))))
		in.Write(stream)
	}
	var valid [][]byte
	for _, rows := range sets() {
		b := vector.New(rows...)
		plain := b.AppendRoaring(nil)
		b.Optimize()
		for _, stream := range [][]byte{plain, b.AppendRoaring(nil)} {
			sum := uint64(0)
			for _, row := range rows {
				sum += uint64(row)
			}
			fmt.Fprintf(&want, "rows %d sum %d\n", len(rows), sum)
			add(stream)
			valid = append(valid, stream)
		}
	}
	require.Equal(t, want.String(), string(pipe(t, in.Bytes(), p.pageRows())))

	in.Reset()
	n := 0
	for _, stream := range valid {
		stream = stream[:min(len(stream), 3000)]
		for range 60 {
			n++
			changed := slices.Clone(stream[:r.IntN(len(stream)+1)])
			if r.IntN(2) == 0 && len(changed) > 0 {
				changed[r.IntN(min(len(changed), 40))] = byte(r.Uint32())
			}
			add(changed)
		}
	}
	out := pipe(t, in.Bytes(), cpeer.Tool(t, "valgrind"), "-q", "--error-exitcode=99", "--leak-check=full", p.pageRows())
	require.Equal(t, n, bytes.Count(out, []byte{'\n'}))
	require.Contains(t, string(out), "none\n")
}
