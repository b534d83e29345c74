package main

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// output is standard output. Commands that change something do not look at its
// errors: a reader that went away undoes no work. Those that print much end at
// the first one. What went wrong is told when the command is done.
type output struct {
	ctx context.Context
	w   io.Writer
	err *outputError
}

// outputError is a failed write to standard output.
type outputError struct{ err error }

func (e *outputError) Error() string { return "standard output: " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if err := o.ctx.Err(); err != nil {
		return 0, err // nobody waits for the rest
	}
	n, err := o.w.Write(p)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // which file it is is said already
		}
		o.err = &outputError{err}
		return n, o.err
	}
	return n, nil
}

// fault is what went wrong, nil where the reader alone went away.
func (o *output) fault() error {
	if o.err == nil || errors.Is(o.err, unix.EPIPE) {
		return nil
	}
	return o.err
}
