package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"starfish/cmd/internal/number"
	"starfish/structs"
	"starfish/vector"
)

// parseID reads a vector id.
func parseID(s string) (uint64, error) {
	id, err := number.Parse(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a vector id (a number up to %d)", s, uint64(1<<64-1))
	}
	return id, nil
}

// parseIDs reads ids and ranges of them: 7 or 1-5.
func parseIDs(args []string) ([]structs.IdRange, error) {
	spans := make([]structs.IdRange, len(args))
	for i, arg := range args {
		first, last, err := number.Span(arg, 64)
		switch {
		case errors.Is(err, number.ErrSpan):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%.40q is not a vector id (a number up to %d), nor a range of them like 1-5", arg, uint64(1<<64-1))
		}
		spans[i] = structs.IdRange{First: first, Last: last}
	}
	return spans, nil
}

// rowSet is rows as they are typed: numbers, and ranges of them.
type rowSet struct {
	rows  []uint32
	spans []rowSpan
}

type rowSpan struct{ first, last uint32 }

func (r *rowSet) bitmap() *vector.Bitmap {
	b := vector.New(r.rows...)
	for _, s := range r.spans {
		b.AddRange(s.first, s.last)
	}
	return b
}

// parse adds the rows and ranges of rows that spaces or commas part.
func (r *rowSet) parse(s string) error {
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '\n' }) {
		if !strings.Contains(f, "-") { // most
			row, err := number.Parse(f, 32)
			if err != nil {
				return fmt.Errorf("%.40q is not a row (a number up to %d)", f, uint32(1<<32-1))
			}
			r.rows = append(r.rows, uint32(row))
			continue
		}
		first, last, err := number.Span(f, 32)
		switch {
		case errors.Is(err, number.ErrSpan):
			return err
		case err != nil:
			return fmt.Errorf("%.40q is not a range of rows (numbers up to %d, like 1-5)", f, uint32(1<<32-1))
		}
		r.spans = append(r.spans, rowSpan{uint32(first), uint32(last)})
	}
	return nil
}

// readVectorFile reads a file of row numbers, with # comments, or one in the
// portable roaring format, told apart by the latter's first bytes. The file - is
// stdin. It does not wait for a pipe when ctx has ended.
func readVectorFile(ctx context.Context, name string, stdin io.Reader) (*vector.Bitmap, error) {
	var data []byte
	err := abandon(ctx, func() (err error) {
		data, err = readFile(name, stdin)
		return err
	})
	if err != nil {
		return nil, err
	}
	if name == "-" {
		name = stdinName
		if len(data) == 0 { // a producer that failed, or no input at all, would wipe the vector
			return nil, fmt.Errorf("%s is empty: nothing was stored; a vector without rows is --rows ''", name)
		}
	}
	if isRoaring(data) {
		b, err := vector.ReadRoaring(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return b, nil
	}
	var all rowSet
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), byteOrderMark)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if err := all.parse(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return all.bitmap(), nil
}

// isRoaring looks for the format's cookie: little endian, it is 12346 or has
// 12347 in its low half.
func isRoaring(data []byte) bool {
	return len(data) >= 4 && (data[0] == 0x3a || data[0] == 0x3b) && data[1] == 0x30
}

// stdinName is what messages call the file -.
const stdinName = "standard input"

// maxVectorFile bounds a file of one vector, twice what the largest takes in the
// roaring format, so that a file without an end is an error.
const maxVectorFile = 1 << 30

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	r := bufio.NewReader(io.LimitReader(stdin, maxVectorFile+1))
	head, _ := r.Peek(512) // the end, or an error, comes again
	if !isRoaring(head) && bytes.IndexByte(head, 0) >= 0 {
		if name == "-" {
			name = stdinName
		}
		return nil, fmt.Errorf("%s: a zero byte: this is neither text nor the roaring format", name)
	}
	data, err := io.ReadAll(r)
	if err == nil && len(data) > maxVectorFile {
		err = fmt.Errorf("%s: over %d bytes, which no vector needs: write ranges, or the roaring format", name, maxVectorFile)
	}
	return data, err
}

// byteOrderMark is what some editors begin a file with.
const byteOrderMark = "\ufeff"

// abandon runs f, which may wait for a pipe or a terminal, and leaves it behind
// when ctx ends first: the process ends then.
func abandon(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count writes "1 row", "2 rows".
func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
