package node

import (
	"fmt"
	"io"
	"sync"
)

// A Log is where a daemon's log lines go. A line that cannot be written, since
// the reader of a pipe went away or a disk is full, is lost and counted; the
// next one that can be written is preceded by how many were lost.
type Log struct {
	mu   sync.Mutex
	w    io.Writer
	name string // of the program

	lost   uint64 // in all
	untold uint64 // of them, not told yet
	err    error  // of the last one
}

// NewLog is a Log of the program name over w.
func NewLog(name string, w io.Writer) *Log { return &Log{w: w, name: name} }

// Write writes one line. It never fails: nobody could be told.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(l.w)
	if _, err := l.w.Write(line); err != nil {
		l.lost++
		l.untold++
		l.err = err
	}
	return len(line), nil
}

// Lost is how many lines were lost.
func (l *Log) Lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Close tells what was lost and not told yet, to the log or, where that still
// cannot be written, to other.
func (l *Log) Close(other io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(l.w)
	l.tell(other)
}

// tell writes how many lines were lost since it was last told; l.mu is held.
func (l *Log) tell(w io.Writer) {
	if l.untold == 0 {
		return
	}
	if _, err := fmt.Fprintf(w, "%s: %d log lines were lost: %v\n", l.name, l.untold, l.err); err == nil {
		l.untold = 0
	}
}
