package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"strings"
)

// Program is the number of a program as logs, errors and .x files write it: in
// hex.
type Program uint32

func (p Program) String() string { return fmt.Sprintf("%#x", uint32(p)) }

// LogValue makes every slog.Handler write String.
func (p Program) LogValue() slog.Value { return slog.StringValue(p.String()) }

// logAttrs say which call it is that a line of the log is about.
func (c *Call) logAttrs() []any {
	return []any{"prog", Program(c.Prog), "vers", c.Vers, "proc", c.Proc, "remote", c.Remote}
}

// panicError is what a handler's panic becomes.
type panicError struct {
	value any
	calls []runtime.Frame // innermost first
}

func (e *panicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.value) }

// maxFrames bounds how much of a stack is kept.
const maxFrames = 32

// newPanicError is called by the deferred function that has recovered value.
func newPanicError(value any) *panicError {
	e := &panicError{value: value}
	pcs := make([]uintptr, 2*maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for panicked, more := false, true; more && len(e.calls) < maxFrames; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case !panicked:
			panicked = f.Function == "runtime.gopanic"
		case len(e.calls) == 0 && strings.HasPrefix(f.Function, "runtime."): // how the runtime came to it
		case strings.HasSuffix(f.Function, ".(*Server).invoke"):
			return e
		default:
			e.calls = append(e.calls, f)
		}
	}
	return e
}

// log writes a line that says what happened and where, and one a call of the
// stack.
func (e *panicError) log(l *slog.Logger, c *Call) {
	at := "unknown"
	if len(e.calls) > 0 {
		at = place(e.calls[0])
	}
	l.Error("rpc: the handler panicked, its caller is told SYSTEM_ERR", append([]any{"panic", fmt.Sprint(e.value), "at", at}, c.logAttrs()...)...)
	for i, f := range e.calls {
		l.LogAttrs(context.Background(), slog.LevelError, "rpc: panic stack", slog.Int("frame", i), slog.String("func", path.Base(f.Function)), slog.String("at", place(f)))
	}
}

// place is the file with its folder, and the line.
func place(f runtime.Frame) string {
	return fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(f.File)), path.Base(f.File), f.Line)
}
