package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"starfish/client"
	"starfish/peer"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// usageError is a command line that cannot be run: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// usageArgs makes what cobra says about arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// queryError is a failed query with its text, to show where it failed.
type queryError struct {
	text string
	err  error
}

func (e *queryError) Error() string { return e.err.Error() }
func (e *queryError) Unwrap() error { return e.err }

// timeoutError is a call that --timeout ended.
type timeoutError struct {
	after time.Duration
	err   error
}

func (e *timeoutError) Error() string {
	host := ""
	if u := (*client.UnreachableError)(nil); errors.As(e.err, &u) {
		host = " from " + u.Host
	}
	return fmt.Sprintf("no answer%s within %v", host, e.after)
}

func (e *timeoutError) Unwrap() error { return e.err }

// said is what an error means, on one line where it is of a call.
func said(err error) string {
	var (
		line    *lineError
		refused *client.Error
		failed  *client.CallError
		away    *client.UnreachableError
		late    *timeoutError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, &line):
		return line.Error()
	case errors.As(err, &late):
		return late.Error()
	case errors.As(err, &refused):
		return peer.Plain(refused.Error())
	case errors.As(err, &away):
		return fmt.Sprintf("no master at %s: %s", away.Host, unreachable(away.Err))
	case errors.As(err, &failed) && errors.As(err, new(*rpc.ReplyError)):
		return failed.Call + ": the master refused the call: " + peer.Reason(failed.Err)
	case errors.As(err, &failed):
		return failed.Call + ": no answer of the master: " + peer.Reason(failed.Err)
	}
	return peer.Plain(err.Error())
}

func unreachable(err error) string {
	if errors.Is(err, portmap.ErrNotRegistered) {
		return "the portmapper there knows of none"
	}
	return peer.Reason(err)
}

// describe writes an error for a person: what, where, and what to do next.
func describe(err error) string {
	msg := said(err)
	if l := (*loadError)(nil); errors.As(err, &l) {
		msg = l.Error()
	}
	var (
		e    *client.Error
		away *client.UnreachableError
		late *timeoutError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return msg
	case errors.As(err, &late):
		return msg + "\nallow more with --timeout"
	case errors.As(err, &away):
		return msg + "\nstart one with 'starfish up', or name its host with --master or STARFISH_MASTER"
	case !errors.As(err, &e):
		return msg
	}
	var b strings.Builder
	b.WriteString(msg)
	if q := (*queryError)(nil); errors.As(err, &q) && e.Status == structs.QUERY_SYNTAX && e.Failure.Position > 0 {
		b.WriteString("\n" + caret(q.text, int(e.Failure.Position)))
	}
	writeConcerned(&b, e)
	if hint := hints[e.Status]; hint != "" {
		b.WriteString("\n" + hint)
	}
	return b.String()
}

// hints is what to do next about each status.
var hints = map[structs.QueryStatus]string{
	structs.QUERY_SYNTAX:         "'starfish query --help' has examples; quote the text, & is special to a shell",
	structs.QUERY_NO_SUCH_VECTOR: "'starfish members' lists the vectors there are",
	structs.QUERY_UNAVAILABLE:    "'starfish status' shows the slaves",
	structs.QUERY_DEADLINE:       "allow more with --deadline",
	structs.QUERY_DENIED:         "changes are taken from the master's own host, or from the addresses of its --allow",
}

// writeConcerned adds the ids and the machines that the message left out.
func writeConcerned(b *strings.Builder, e *client.Error) {
	f := &e.Failure
	if n := len(f.Vectors); n > 0 && !strings.Contains(f.Message, fmt.Sprint(f.Vectors[0])) {
		shown := f.Vectors[:min(n, 10)]
		ids := make([]string, len(shown))
		for i, id := range shown {
			ids[i] = fmt.Sprint(id)
		}
		fmt.Fprintf(b, "\nvectors: %s", strings.Join(ids, ", "))
		if more := max(f.VectorsTotal, uint64(n)) - uint64(len(shown)); more > 0 {
			fmt.Fprintf(b, " and %d more", more)
		}
	}
	var names []string
	for _, m := range f.FailedMachines {
		if !strings.Contains(f.Message, string(m)) {
			names = append(names, string(m))
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "\nmachines: %s", strings.Join(names, ", "))
	}
}

// caret shows the text with a mark under its byte pos (1-based; one past the
// end is allowed). A long text is cut to what is around the byte.
func caret(text string, pos int) string {
	const around = 36
	at := min(max(pos-1, 0), len(text))
	lo, hi := max(at-around, 0), min(at+around, len(text))
	for lo > 0 && !utf8.RuneStart(text[lo]) {
		lo--
	}
	for hi < len(text) && !utf8.RuneStart(text[hi]) {
		hi++
	}
	before, after := printable(text[lo:at]), printable(text[at:hi])
	if lo > 0 {
		before = "..." + before
	}
	if hi < len(text) {
		after += "..."
	}
	return "  " + before + after + "\n  " + strings.Repeat(" ", utf8.RuneCountInString(before)) + "^"
}

// printable replaces what would move the cursor, or change the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// printableLines is printable but for the ends of lines: a message may quote
// what a C handler, or whoever joined, wrote.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
