package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"starfish/client"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/vector"
)

func TestCaretPointsAtTheByte(t *testing.T) {
	for _, c := range []struct {
		name, text string
		pos        int
		want       string
	}{
		{"Middle", "R:0-&3", 5, "  R:0-&3\n      ^"},
		{"First", "X:1", 1, "  X:1\n  ^"},
		{"OnePastTheEnd", "R:0-", 5, "  R:0-\n      ^"},
		{"FarPastTheEnd", "R:", 99, "  R:\n    ^"},
		{"Empty", "", 1, "  \n  ^"},
		{"ControlBytesDoNotMoveTheCursor", "R:1\n\t&", 6, "  R:1  &\n       ^"},
		{"ManyBytesAreOneColumn", "R:é&", 5, "  R:é&\n     ^"},
		{"ALongTextIsCut", strings.Repeat("1", 100) + "x" + strings.Repeat("2", 100), 101,
			"  ..." + strings.Repeat("1", 36) + "x" + strings.Repeat("2", 35) + "...\n  " + strings.Repeat(" ", 39) + "^"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, caret(c.text, c.pos))
		})
	}
}

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		text string
		id   uint64
		rows []uint32
		ok   bool
		err  string
	}{
		{"7: 1 5 9\n", 7, []uint32{1, 5, 9}, true, ""},
		{"0013: 0007", 13, []uint32{7}, true, ""},
		{"010: 1-5,9 010-0011\r\n", 10, []uint32{1, 2, 3, 4, 5, 9, 10, 11}, true, ""},
		{"7: 4294967295-4294967295", 7, []uint32{1<<32 - 1}, true, ""},
		{"7:1,5,9", 7, []uint32{1, 5, 9}, true, ""},
		{" 7 :\t1\r\n", 7, []uint32{1}, true, ""},
		{"7:", 7, nil, true, ""},
		{"18446744073709551615: 4294967295", 1<<64 - 1, []uint32{1<<32 - 1}, true, ""},
		{"7: 1 # 2 3", 7, []uint32{1}, true, ""},
		{"# 7: 1", 0, nil, false, ""},
		{"  \n", 0, nil, false, ""},
		{"7 1 5", 0, nil, false, "no colon"},
		{"x: 1", 0, nil, false, `"x" is not a vector id`},
		{": 1", 0, nil, false, `"" is not a vector id`},
		{"-7: 1", 0, nil, false, "not a vector id"},
		{"7: 1 4294967296", 0, nil, false, `"4294967296" is not a row`},
		{"7: 1 two", 0, nil, false, `"two" is not a row`},
		{"0x10: 1", 0, nil, false, `"0x10" is not a vector id`},
		{"+5: 1", 0, nil, false, "not a vector id"},
		{"1_000: 1", 0, nil, false, "not a vector id"},
		{"7: 0x10", 0, nil, false, "not a row"},
		{"7: +5", 0, nil, false, "not a row"},
		{"7: 1_000", 0, nil, false, "not a row"},
		{"7: 9-3", 0, nil, false, `"9-3": it ends before it begins`},
		{"7: -3", 0, nil, false, "not a range of rows"},
		{"7: 1-", 0, nil, false, "not a range of rows"},
		{"7: 1-4294967296", 0, nil, false, "not a range of rows"},
		{"7: 1;2", 0, nil, false, "not a row"},
	} {
		id, rows, ok, err := parseLine(c.text)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.text)
			continue
		}
		require.NoError(t, err, c.text)
		require.Equal(t, c.ok, ok, c.text)
		require.Equal(t, c.id, id, c.text)
		require.True(t, vector.New(c.rows...).Equal(rows.bitmap()), c.text)
	}
}

func TestParseSpans(t *testing.T) {
	got, err := parseSpans("0-99, 200")
	require.NoError(t, err)
	require.Equal(t, []structs.IdRange{{First: 0, Last: 99}, {First: 200, Last: 200}}, got)
	for _, bad := range []string{"", ",", "a", "1-", "-1", "9-3", "1-2-3", "18446744073709551616"} {
		_, err := parseSpans(bad)
		require.Error(t, err, bad)
	}
}

func TestParseIDs(t *testing.T) {
	got, err := parseIDs([]string{"010", "1-5"})
	require.NoError(t, err)
	require.Equal(t, []structs.IdRange{{First: 10, Last: 10}, {First: 1, Last: 5}}, got)
	for _, bad := range []string{"", "0x10", "+5", "1_000", "1-", "-1", "9-3", "1,2", "18446744073709551616"} {
		_, err := parseIDs([]string{bad})
		require.Error(t, err, bad)
	}
}

// TestPartSpans: the parts are the whole, and none has too many known ids.
func TestPartSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(math.MaxUint64-40, math.MaxUint64))
		ids := rapid.SliceOfNDistinct(id, 1, 30, rapid.ID[uint64]).Draw(t, "ids")
		var spans []structs.IdRange
		for _, id := range ids {
			spans = append(spans, structs.IdRange{First: id, Last: id})
		}
		slices.Sort(ids)
		var known []uint64
		for _, id := range ids {
			if rapid.Bool().Draw(t, "known") {
				known = append(known, id)
			}
		}
		most := rapid.IntRange(1, 5).Draw(t, "most")
		var all []uint64
		for _, part := range partSpans(mergeSpans(spans), known, most) {
			n := 0
			for _, s := range part {
				for id := s.First; ; id++ {
					all = append(all, id)
					if slices.Contains(known, id) {
						n++
					}
					if id == s.Last {
						break
					}
				}
			}
			require.LessOrEqual(t, n, most)
		}
		require.Equal(t, ids, all)
	})
}

func TestSpanList(t *testing.T) {
	require.Equal(t, "1-3, 7", spanList([]structs.IdRange{{First: 1, Last: 3}, {First: 7, Last: 7}}, 4))
	require.Equal(t, "1-3 and 9 more", spanList([]structs.IdRange{{First: 1, Last: 3}}, 12))
}

func TestReadVectorFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	want := vector.New(1, 5, 70000)
	roaring := want.AppendRoaring(nil)
	for _, path := range []string{
		write("numbers", []byte("1\n5 # five\n\n70000\n")),
		write("commas", []byte("1, 5,70000")),
		write("roaring", roaring),
		write("bom", []byte("\ufeff1\r\n5-5\r\n70000")),
	} {
		b, err := readVectorFile(t.Context(), path, nil)
		require.NoError(t, err, path)
		require.True(t, want.Equal(b), path)
	}
	_, err := readVectorFile(t.Context(), write("bad", []byte("1\nx\n")), nil)
	require.ErrorContains(t, err, `bad:2: "x" is not a row`)
	_, err = readVectorFile(t.Context(), write("cut", roaring[:len(roaring)-1]), nil)
	require.ErrorContains(t, err, "cut: ")
	_, err = readVectorFile(t.Context(), filepath.Join(dir, "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = readVectorFile(t.Context(), dir, nil)
	require.ErrorContains(t, err, "is a directory")

	b, err := readVectorFile(t.Context(), "-", bytes.NewReader(roaring))
	require.NoError(t, err)
	require.True(t, want.Equal(b))
	_, err = readVectorFile(t.Context(), "-", strings.NewReader("x"))
	require.ErrorContains(t, err, `standard input:1: "x"`)

	// Nobody ever writes into the pipe.
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = readVectorFile(ctx, filepath.Join(dir, "pipe"), nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCheckFilesReportsEveryBadLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) *source {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return &source{path: path, name: name}
	}
	n, err := checkFiles([]*source{write("a", "1: 1\n# c\n\n2:\n"), write("b", "\ufeff3: 1 2")})
	require.NoError(t, err)
	require.EqualValues(t, 3, n)

	_, err = checkFiles([]*source{write("a", "1: 1\nx\n2: y\n"), write("b", "1: 4\n")})
	require.EqualError(t, err, `a:2: no colon: a line is 'ID: row row ...'
a:3: "y" is not a row (a number up to 4294967295)
b:1: the vector 1 stands here a second time`)

	_, err = checkFiles([]*source{write("c", strings.Repeat("x\n", 100))})
	require.Len(t, strings.Split(err.Error(), "\n"), maxComplaints+1)

	// A load of nothing is an error, unless the file is empty.
	n, err = checkFiles([]*source{write("d", "")})
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = checkFiles([]*source{write("e", "# nothing\n")})
	require.EqualError(t, err, "e: no vectors in it, only comments and blank lines")
	_, err = checkFiles([]*source{write("f", "1: 1\n\x00\x00")})
	require.EqualError(t, err, "f:2: a zero byte: this is no text")
}

func TestDescribeSaysWhatWhereAndWhatNext(t *testing.T) {
	failure := structs.QueryFailure{Message: "vectors have no live holder", Vectors: []uint64{7, 9}, VectorsTotal: 12, FailedMachines: []structs.MachineName{"127.0.0.2"}}
	err := &queryError{"P:7", &client.Error{Status: structs.QUERY_UNAVAILABLE, Failure: failure}}
	require.Equal(t, `vectors have no live holder
vectors: 7, 9 and 10 more
machines: 127.0.0.2
'starfish status' shows the slaves`, describe(err))

	syntax := &client.Error{Status: structs.QUERY_SYNTAX, Failure: structs.QueryFailure{Message: "query: byte 5: expected a number", Position: 5}}
	require.Contains(t, describe(&queryError{"R:0-&3", syntax}), "\n  R:0-&3\n      ^\n")

	unreachable := &client.UnreachableError{Host: "10.0.0.1", Err: errors.New("refused")}
	require.Contains(t, describe(unreachable), "no master at 10.0.0.1: refused\nstart one with 'starfish up'")

	// What a call ran into, without the packages that it went through.
	for _, c := range []struct {
		err  error
		want string
	}{
		{&client.CallError{Call: "put 1007235", Err: fmt.Errorf("rpc: call: %w", context.Canceled)}, "interrupted"},
		{&client.CallError{Call: "put 7", Err: fmt.Errorf("rpc: call 0x20b17000.2.2 at 127.0.0.1:20480: %w: EOF", rpc.ErrClosed)}, "put 7: no answer of the master: the connection ended"},
		{&client.CallError{Call: "status", Err: fmt.Errorf("rpc: call: %w", rpc.ErrProcUnavail)}, "status: the master refused the call: it is of another release (PROC_UNAVAIL)"},
		{&timeoutError{after: time.Millisecond, err: &client.UnreachableError{Host: "10.0.0.1", Err: context.DeadlineExceeded}}, "no answer from 10.0.0.1 within 1ms\nallow more with --timeout"},
		{&client.UnreachableError{Host: "h", Err: &portmap.NotRegisteredError{Prog: 1}}, "no master at h: the portmapper there knows of none\nstart one with 'starfish up', or name its host with --master or STARFISH_MASTER"},
		{&loadError{err: &lineError{"a", 3, &client.CallError{Call: "put 7", Err: context.Canceled}}, stored: 2, total: 9}, "interrupted\n2 of 9 vectors stored; those in flight may or may not be. Loading again is safe"},
		{&loadError{err: &lineError{"a", 3, &client.Error{Status: structs.QUERY_FAILED, Failure: structs.QueryFailure{Message: "no"}}}, total: 1}, "a:3: no\n0 of 1 vector stored; those in flight may or may not be. Loading again is safe"},
	} {
		require.Equal(t, c.want, describe(c.err))
	}
}

// TestWhatIsNoFileIsReadOnce: a pipe cannot be opened twice, and what went by is
// there for the second time.
func TestWhatIsNoFileIsReadOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(pipe, []byte("1: 1\n2: 2\n"), 0o600) }()
	files, err := openSources([]string{pipe, "-"}, strings.NewReader("3: 3\n"))
	require.NoError(t, err)
	n, err := checkFiles(files)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	require.EqualValues(t, 3, n)
	var again []uint64
	for _, src := range files {
		_, err := eachLine(src, func(l loadLine) error { again = append(again, l.id); return nil }, func(err error) error { return err })
		require.NoError(t, err)
	}
	require.Equal(t, []uint64{1, 2, 3}, again)

	_, err = openSources([]string{filepath.Dir(pipe)}, nil)
	require.ErrorContains(t, err, "is a directory: name the files in it")
	require.ErrorIs(t, abandon(canceled(t), func() error { _, err := os.ReadFile(pipe); return err }), context.Canceled)
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// writer fails with err from the n-th write on.
type writer struct {
	n   int
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func TestOutput(t *testing.T) {
	for _, c := range []struct {
		name string
		w    *writer
		code int
		says string
	}{
		{"AReaderThatWentAway", &writer{0, unix.EPIPE}, exitOK, ""},
		{"AFullDisk", &writer{0, unix.ENOSPC}, exitFailed, "starfish: standard output: no space left on device\n"},
		{"Fine", &writer{9, unix.ENOSPC}, exitOK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			require.Equal(t, c.code, run(t.Context(), []string{"version"}, nil, c.w, &stderr))
			require.Equal(t, c.says, stderr.String())
		})
	}
	// The rest of a long answer is not written to nobody.
	w := &writer{1, unix.EPIPE}
	all := vector.New()
	all.AddRange(0, 1<<32-1)
	require.ErrorIs(t, printRows(&output{ctx: t.Context(), w: w}, all, "\n"), unix.EPIPE)
	require.Equal(t, -1, w.n, "one failed write is the last")
	require.ErrorIs(t, printRows(&output{ctx: canceled(t), w: &writer{9, nil}}, all, "\n"), context.Canceled)
}

// FuzzParseLine: what is read of a line is what it says, whatever else stands there.
func FuzzParseLine(f *testing.F) {
	for _, s := range []string{"7: 1 5 9\n", "0013: 0007", "7: 1-5,9", "7:", "# 7: 1", "7: 9-3", "x: 1", "+5: 0x1", "7: 1\r\n", "7: 4294967295-4294967295", "7 1", ": 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, rows, ok, err := parseLine(text)
		if err != nil || !ok {
			return
		}
		var again strings.Builder
		fmt.Fprintf(&again, "%d:", id)
		for _, r := range rows.rows {
			fmt.Fprintf(&again, " %d", r)
		}
		for _, s := range rows.spans {
			require.LessOrEqual(t, s.first, s.last)
			fmt.Fprintf(&again, " %d-%d", s.first, s.last)
		}
		id2, rows2, ok, err := parseLine(again.String())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, id, id2)
		require.Equal(t, rows, rows2)
	})
}

// TestHost: what clnt_create takes, and what is to be said instead of the rest.
func TestHost(t *testing.T) {
	for in, want := range map[string]string{"": "127.0.0.1", "::1": "::1", "fe80::1%lo": "fe80::1%lo", "a.example.": "a.example.", "h_1": "h_1"} {
		host, err := (&globals{master: in}).host()
		require.NoError(t, err, in)
		require.Equal(t, want, host)
	}
	for in, says := range map[string]string{
		"127.0.0.1:111":    "say 127.0.0.1, ",
		"[::1]:111":        "say ::1, ",
		"[::1]":            "has brackets: say ::1",
		"http://127.0.0.1": "neither a host name nor an address",
		" ":                "neither a host name nor an address",
		"127.0.0.1\n":      "neither a host name nor an address",
		":111":             "neither a host name nor an address",
		":":                "neither a host name nor an address",
		"a/b":              "neither a host name nor an address",
		"h:":               "neither a host name nor an address",
	} {
		_, err := (&globals{master: in}).host()
		require.ErrorAs(t, err, new(*usageError), in)
		require.ErrorContains(t, err, says, in)
	}
}

// What others wrote does not reach the terminal as it is.
func TestNoEscapesReachTheTerminal(t *testing.T) {
	require.Equal(t, "a [31mred\nnext\ufffd ", printableLines("a\x1b[31mred\nnext\xff\u009b"))
	var b strings.Builder
	require.NoError(t, printStatus(&b, &structs.ClusterStatus{Slaves: []structs.SlaveStatus{{Addr: "h", Protocol: 2, Problem: "x\x1b[2J\ny"}}}))
	require.NotContains(t, b.String(), "\x1b")
	require.Contains(t, b.String(), "x [2J y\n")
}
