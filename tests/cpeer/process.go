package cpeer

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program that runs beside a test.
type Process struct {
	Cmd *exec.Cmd

	mu   sync.Mutex
	out  bytes.Buffer
	more chan struct{} // closed and replaced when output arrives
	done chan struct{} // closed after Wait
	err  error
}

// Start runs cmd and kills it at the end of the test. Its standard output and
// error are kept for Output and WaitFor.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, more: make(chan struct{}), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = writer{p}, writer{p}
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("output of %s:\n%s", cmd, p.Output())
		}
	})
	return p
}

// Output is what the program has written so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// WaitFor returns when the output contains text; the test fails when the
// program ends, or timeout passes, before that.
func (p *Process) WaitFor(t testing.TB, text string, timeout time.Duration) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		found, more := strings.Contains(p.out.String(), text), p.more
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-p.done:
			if !strings.Contains(p.Output(), text) {
				t.Fatalf("%s ended (%v) before it wrote %q:\n%s", p.Cmd, p.err, text, p.Output())
			}
			return
		case <-deadline.C:
			t.Fatalf("%s did not write %q within %v:\n%s", p.Cmd, text, timeout, p.Output())
		}
	}
}

// Signal sends sig to the program.
func (p *Process) Signal(sig syscall.Signal) error { return p.Cmd.Process.Signal(sig) }

// Wait waits for the end of the program and returns exec.Cmd.Wait's error; the
// test fails when it has not ended within timeout.
func (p *Process) Wait(t testing.TB, timeout time.Duration) error {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	select {
	case <-p.done:
		return p.err
	case <-deadline.C:
		t.Fatalf("%s did not end within %v:\n%s", p.Cmd, timeout, p.Output())
		return nil
	}
}

type writer struct{ p *Process }

var _ io.Writer = writer{}

func (w writer) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.out.Write(b)
	close(w.p.more)
	w.p.more = make(chan struct{})
	return len(b), nil
}
