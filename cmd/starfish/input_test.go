package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/client"
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
	} {
		id, rows, ok, err := parseLine(c.text)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.text)
			continue
		}
		require.NoError(t, err, c.text)
		require.Equal(t, c.ok, ok, c.text)
		require.Equal(t, c.id, id, c.text)
		require.Equal(t, c.rows, rows, c.text)
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
	} {
		b, err := readVectorFile(path)
		require.NoError(t, err, path)
		require.True(t, want.Equal(b), path)
	}
	_, err := readVectorFile(write("bad", []byte("1\nx\n")))
	require.ErrorContains(t, err, `bad:2: "x" is not a row`)
	_, err = readVectorFile(write("cut", roaring[:len(roaring)-1]))
	require.ErrorContains(t, err, "cut: ")
	_, err = readVectorFile(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCheckFilesReportsEveryBadLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) source {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return source{path, name}
	}
	n, err := checkFiles([]source{write("a", "1: 1\n# c\n\n2:\n"), write("b", "\ufeff3: 1 2")})
	require.NoError(t, err)
	require.EqualValues(t, 3, n)

	_, err = checkFiles([]source{write("a", "1: 1\nx\n2: y\n"), write("b", "1: 4\n")})
	require.EqualError(t, err, `a:2: no colon: a line is 'ID: row row ...'
a:3: "y" is not a row (a number up to 4294967295)
b:1: the vector 1 stands here a second time`)

	_, err = checkFiles([]source{write("c", strings.Repeat("x\n", 100))})
	require.Len(t, strings.Split(err.Error(), "\n"), maxComplaints+1)
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
}
