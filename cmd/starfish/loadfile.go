package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxComplaints is how many bad lines a load reports before it gives up.
const maxComplaints = 10

// maxLine bounds one line of an index file.
const maxLine = 1 << 30

// loadLine is one vector of an index file.
type loadLine struct {
	file string
	line int
	id   uint64
	rows rowSet
}

// parseLine reads `ID: row row ...`. ok is false for blank lines and comments.
func parseLine(text string) (id uint64, rows rowSet, ok bool, err error) {
	text, _, _ = strings.Cut(text, "#")
	if strings.TrimSpace(text) == "" {
		return 0, rows, false, nil
	}
	head, tail, found := strings.Cut(text, ":")
	if !found {
		return 0, rows, false, errors.New("no colon: a line is 'ID: row row ...'")
	}
	if id, err = parseID(strings.TrimSpace(head)); err != nil {
		return 0, rows, false, err
	}
	if err = rows.parse(tail); err != nil {
		return 0, rows, false, err
	}
	return id, rows, true, nil
}

// source is an index file: where it is, and what messages call it.
type source struct {
	path, name string
	stdin      io.Reader // read instead of the path
	once       bool      // no regular file: what is read is kept, for the second time
	kept       *os.File
}

// open begins to read a source anew.
func (s *source) open() (io.ReadCloser, error) {
	if s.kept != nil {
		return io.NopCloser(io.NewSectionReader(s.kept, 0, 1<<62)), nil
	}
	in := io.NopCloser(s.stdin)
	if s.stdin == nil {
		f, err := os.Open(s.path)
		if err != nil {
			return nil, err
		}
		in = f
	}
	if !s.once {
		return in, nil
	}
	kept, err := os.CreateTemp("", "starfish-load-*")
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	s.kept = kept
	// Without a name from here on: it goes when the process does.
	if err := os.Remove(kept.Name()); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(in, kept), in}, nil
}

// openSources makes sources of the arguments; - is standard input.
func openSources(args []string, stdin io.Reader) (files []*source, err error) {
	for i, name := range args {
		if name == "-" {
			if slices.Contains(args[:i], "-") {
				return nil, usagef("standard input (-) can be read only once")
			}
			files = append(files, &source{name: stdinName, stdin: stdin, once: true})
			continue
		}
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			return nil, fmt.Errorf("%s is a directory: name the files in it", name)
		}
		// What is not there fails when it is opened.
		files = append(files, &source{path: name, name: name, once: err == nil && !info.Mode().IsRegular()})
	}
	return files, nil
}

// eachLine calls f for each vector of an index file, and bad for each line that
// is none; an error of either ends it. size is how many bytes were read.
func eachLine(src *source, f func(loadLine) error, bad func(error) error) (size uint64, err error) {
	in, err := src.open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	r := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		text, err := readLine(r)
		size += uint64(len(text))
		if err != nil && err != io.EOF {
			return size, fmt.Errorf("%s:%d: %w", src.name, n, err)
		}
		if text != "" {
			if n == 1 {
				text = strings.TrimPrefix(text, byteOrderMark)
			}
			id, rows, ok, perr := parseLine(text)
			switch {
			case perr != nil:
				perr = bad(fmt.Errorf("%s:%d: %w", src.name, n, perr))
			case ok:
				perr = f(loadLine{src.name, n, id, rows})
			}
			if perr != nil {
				return size, perr
			}
		}
		if err == io.EOF {
			return size, nil
		}
	}
}

// readLine reads up to a newline or the end. What is no text is found out before
// it fills the memory.
func readLine(r *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case bytes.IndexByte(part, 0) >= 0:
			return "", errors.New("a zero byte: this is no text")
		case len(long)+len(part) > maxLine:
			return "", fmt.Errorf("a line of over %d bytes", maxLine)
		case err != bufio.ErrBufferFull && long == nil:
			return string(part), err
		}
		if long = append(long, part...); err != bufio.ErrBufferFull {
			return string(long), err
		}
	}
}

// checkFiles reads every file before anything is stored, counts the vectors,
// and reports all bad lines, up to a number that a person reads.
func checkFiles(files []*source) (vectors uint64, err error) {
	var complaints []error
	bad := func(err error) error {
		if complaints = append(complaints, err); len(complaints) == maxComplaints {
			return errors.Join(append(complaints, errors.New("... and maybe more"))...)
		}
		return nil
	}
	seen := make(map[uint64]struct{})
	bytes := uint64(0)
	for _, src := range files {
		size, err := eachLine(src, func(l loadLine) error {
			if _, twice := seen[l.id]; twice {
				return bad(fmt.Errorf("%s:%d: the vector %d stands here a second time", l.file, l.line, l.id))
			}
			seen[l.id] = struct{}{}
			return nil
		}, bad)
		if err != nil {
			return 0, err
		}
		bytes += size
	}
	if len(seen) == 0 && len(complaints) == 0 && bytes > 0 {
		return 0, fmt.Errorf("%s: no vectors in it, only comments and blank lines", files[0].name)
	}
	return uint64(len(seen)), errors.Join(complaints...)
}
