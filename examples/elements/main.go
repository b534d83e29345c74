// Command elements makes elements.index, the file that `starfish load` reads,
// from elements.csv: one vector for each period, group, block, state and decade
// of discovery. A row is an atomic number.
//
//	go run ./examples/elements < elements.csv > elements.index
package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
)

// The first id of each kind of vector. Periods are their own ids, and so are
// decades: 1890 is the 1890s.
const (
	groupBase = 100 // 101 to 118
	blockBase = 201 // in the order of blocks
	stateBase = 301 // in the order of states
	ancientID = 400 // no year: known before 1600
)

var (
	blocks = []string{"s", "p", "d", "f"}
	states = []string{"solid", "liquid", "gas", "unknown"}
)

const header = `# The chemical elements as bitmap vectors, made from elements.csv.
# A line is ID: row row ... and a row is an atomic number.
#
#     1 to 7      periods
#   101 to 118    groups 1 to 18 (the f-block has none)
#   201 to 204    blocks s, p, d, f
#   301 to 304    at room temperature solid, liquid, gas, unknown
#   400           known before 1600
#  1660 to 2000   discovered in that decade: 1890 is the 1890s
`

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "elements:", err)
		os.Exit(1)
	}
}

// run reads the table and writes the index in ascending order of ids.
func run(r io.Reader, w io.Writer) error {
	records, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return errors.New("the table is empty")
	}
	vectors := make(map[int][]int)
	for i, record := range records[1:] {
		row, ids, err := vectorsOf(record)
		if err != nil {
			return fmt.Errorf("line %d: %w", i+2, err)
		}
		for _, id := range ids {
			vectors[id] = append(vectors[id], row)
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprint(out, header)
	for _, id := range slices.Sorted(maps.Keys(vectors)) {
		fmt.Fprintf(out, "%d:", id)
		for _, row := range vectors[id] {
			fmt.Fprintf(out, " %d", row)
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// vectorsOf tells the row of an element and the vectors that have it. The
// fields are number, symbol, name, period, group, block, state, year.
func vectorsOf(record []string) (row int, ids []int, err error) {
	if len(record) != 8 {
		return 0, nil, fmt.Errorf("%d fields, not 8", len(record))
	}
	number := func(i int) int {
		n, convErr := strconv.Atoi(record[i])
		err = errors.Join(err, convErr)
		return n
	}
	row, ids = number(0), []int{number(3)}
	if record[4] != "" {
		ids = append(ids, groupBase+number(4))
	}
	block, state := slices.Index(blocks, record[5]), slices.Index(states, record[6])
	if block < 0 || state < 0 {
		return 0, nil, fmt.Errorf("unknown block %q or state %q", record[5], record[6])
	}
	ids = append(ids, blockBase+block, stateBase+state)
	if record[7] == "" {
		ids = append(ids, ancientID)
	} else {
		ids = append(ids, number(7)/10*10)
	}
	return row, ids, err
}
