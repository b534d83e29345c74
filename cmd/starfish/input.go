package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"starfish/vector"
)

// parseID reads a vector id, decimal or 0x.
func parseID(s string) (uint64, error) {
	id, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a vector id (a number up to %d)", s, uint64(1<<64-1))
	}
	return id, nil
}

// parseRows reads row numbers that spaces or commas part.
func parseRows(s string) ([]uint32, error) {
	var out []uint32
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' }) {
		row, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a row (a number up to %d)", f, uint32(1<<32-1))
		}
		out = append(out, uint32(row))
	}
	return out, nil
}

// readVectorFile reads a file of numbers, with # comments, or one in the
// portable roaring format, told apart by the latter's first bytes.
func readVectorFile(name string) (*vector.Bitmap, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	// The format's cookie, little endian, is 12346 or has 12347 in its low half.
	if len(data) >= 4 && (data[0] == 0x3a || data[0] == 0x3b) && data[1] == 0x30 {
		b, err := vector.ReadRoaring(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return b, nil
	}
	var all []uint32
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		rows, err := parseRows(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		all = append(all, rows...)
	}
	return vector.New(all...), nil
}

// count writes "1 row", "2 rows".
func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
