package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIndexIsMadeFromTheTable(t *testing.T) {
	table, err := os.Open("elements.csv")
	require.NoError(t, err)
	defer table.Close()
	var got bytes.Buffer
	require.NoError(t, run(table, &got))
	want, err := os.ReadFile("elements.index")
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "elements.index is stale: make generate")
}

// The table's shape, from the outline of the periodic table alone.
func TestIndexAgreesWithThePeriodicTable(t *testing.T) {
	vectors := readIndex(t)

	first := 1
	for period, length := range map[int]int{1: 2, 2: 8, 3: 8, 4: 18, 5: 18, 6: 32, 7: 32} {
		require.Len(t, vectors[period], length, "period %d", period)
	}
	for period := 1; period <= 7; period++ {
		for _, row := range vectors[period] {
			require.Equal(t, first, row, "period %d", period)
			first++
		}
	}
	require.Equal(t, 119, first)

	require.Equal(t, []int{2, 10, 18, 36, 54, 86, 118}, vectors[118], "noble gases")
	require.Equal(t, []int{1, 3, 11, 19, 37, 55, 87}, vectors[101], "group 1")
	require.Equal(t, []int{21, 39, 71, 103}, vectors[103], "group 3")
	require.Equal(t, []int{35, 80}, vectors[302], "liquids")
	require.Equal(t, []int{1, 2, 7, 8, 9, 10, 17, 18, 36, 54, 86}, vectors[303], "gases")
	for id, n := range map[int]int{201: 14, 202: 36, 203: 40, 204: 28} {
		require.Len(t, vectors[id], n, "block %d", id)
	}
	for _, kind := range [][2]int{{1, 7}, {201, 204}, {301, 304}, {400, 2000}} {
		n := 0
		for id, rows := range vectors {
			if id >= kind[0] && id <= kind[1] {
				n += len(rows)
			}
		}
		require.Equal(t, 118, n, "ids %d to %d have each element once", kind[0], kind[1])
	}
}

func TestBadTableIsRefusedWithItsLine(t *testing.T) {
	const head = "number,symbol,name,period,group,block,state,year\n"
	for _, bad := range []string{"1,H,Hydrogen,one,1,s,gas,1766", "1,H,Hydrogen,1,1,x,gas,1766", "1,H,Hydrogen,1,1,s,plasma,1766"} {
		require.ErrorContains(t, run(strings.NewReader(head+bad), &bytes.Buffer{}), "line 2")
	}
	require.Error(t, run(strings.NewReader(""), &bytes.Buffer{}))
}

// readIndex reads elements.index as a reader of its header would.
func readIndex(t *testing.T) map[int][]int {
	t.Helper()
	text, err := os.ReadFile("elements.index")
	require.NoError(t, err)
	vectors := make(map[int][]int)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rows, ok := strings.Cut(line, ":")
		require.True(t, ok, line)
		var id int
		_, err := fmt.Sscan(name, &id)
		require.NoError(t, err)
		for _, field := range strings.Fields(rows) {
			var row int
			_, err := fmt.Sscan(field, &row)
			require.NoError(t, err)
			vectors[id] = append(vectors[id], row)
		}
	}
	return vectors
}
