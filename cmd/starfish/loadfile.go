package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxComplaints is how many bad lines a load reports before it gives up.
const maxComplaints = 10

// loadLine is one vector of an index file.
type loadLine struct {
	file string
	line int
	id   uint64
	rows []uint32
}

// parseLine reads `ID: row row ...`. ok is false for blank lines and comments.
func parseLine(text string) (id uint64, rows []uint32, ok bool, err error) {
	text, _, _ = strings.Cut(text, "#")
	if strings.TrimSpace(text) == "" {
		return 0, nil, false, nil
	}
	head, tail, found := strings.Cut(text, ":")
	if !found {
		return 0, nil, false, errors.New("no colon: a line is 'ID: row row ...'")
	}
	if id, err = parseID(strings.TrimSpace(head)); err != nil {
		return 0, nil, false, err
	}
	if rows, err = parseRows(tail); err != nil {
		return 0, nil, false, err
	}
	return id, rows, true, nil
}

// source is an index file: where it is, and what messages call it.
type source struct{ path, name string }

// eachLine calls f for each vector of an index file, and bad for each line that
// is none; an error of either ends it.
func eachLine(src source, f func(loadLine) error, bad func(error) error) error {
	file, err := os.Open(src.path)
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 1<<16)
	for n := 1; ; n++ {
		text, err := r.ReadString('\n')
		if text != "" {
			if n == 1 {
				text = strings.TrimPrefix(text, "\ufeff")
			}
			id, rows, ok, perr := parseLine(text)
			switch {
			case perr != nil:
				perr = bad(fmt.Errorf("%s:%d: %w", src.name, n, perr))
			case ok:
				perr = f(loadLine{src.name, n, id, rows})
			}
			if perr != nil {
				return perr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", src.name, n, err)
		}
	}
}

// checkFiles reads every file before anything is stored, counts the vectors,
// and reports all bad lines, up to a number that a person reads.
func checkFiles(files []source) (vectors uint64, err error) {
	var complaints []error
	bad := func(err error) error {
		if complaints = append(complaints, err); len(complaints) == maxComplaints {
			return errors.Join(append(complaints, errors.New("... and maybe more"))...)
		}
		return nil
	}
	seen := make(map[uint64]struct{})
	for _, src := range files {
		err := eachLine(src, func(l loadLine) error {
			if _, twice := seen[l.id]; twice {
				return bad(fmt.Errorf("%s:%d: the vector %d stands here a second time", l.file, l.line, l.id))
			}
			seen[l.id] = struct{}{}
			return nil
		}, bad)
		if err != nil {
			return 0, err
		}
	}
	return uint64(len(seen)), errors.Join(complaints...)
}

// openSources makes files of the arguments: - is standard input, copied to a
// file, because a load reads its files twice. done removes the copy.
func openSources(args []string, stdin io.Reader) (files []source, done func(), err error) {
	done = func() {}
	for i, name := range args {
		if name != "-" {
			files = append(files, source{name, name})
			continue
		}
		if slices.Contains(args[:i], "-") {
			return nil, done, usagef("standard input (-) can be read only once")
		}
		f, err := os.CreateTemp("", "starfish-load-*")
		if err != nil {
			return nil, done, err
		}
		done = func() { os.Remove(f.Name()) }
		_, err = io.Copy(f, stdin)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, done, fmt.Errorf("standard input: %w", err)
		}
		files = append(files, source{f.Name(), "standard input"})
	}
	return files, done, nil
}
