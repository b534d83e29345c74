package cpeer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	p.WaitForN(t, text, 1, timeout)
}

// WaitForN is WaitFor for a text that the output shall contain n times.
func (p *Process) WaitForN(t testing.TB, text string, n int, timeout time.Duration) {
	t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		found, more := strings.Count(p.out.String(), text) >= n, p.more
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-p.done:
			if strings.Count(p.Output(), text) < n {
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

// Stop stops the program, as a machine that hangs, and returns when it has
// stopped: the signal alone is only a promise, and on a busy machine a thread may
// still answer a call that is made after it.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.signalUntil(t, syscall.SIGSTOP, func(state byte) bool { return state == 'T' })
}

// Continue ends what Stop began.
func (p *Process) Continue(t testing.TB) {
	t.Helper()
	p.signalUntil(t, syscall.SIGCONT, func(state byte) bool { return state != 'T' })
}

// signalBound bounds the wait for an effect of a signal.
const signalBound = time.Minute

func (p *Process) signalUntil(t testing.TB, sig syscall.Signal, done func(state byte) bool) {
	t.Helper()
	if err := p.Signal(sig); err != nil {
		t.Fatalf("%v to %s: %v", sig, p.Cmd, err)
	}
	for end := time.Now().Add(signalBound); ; time.Sleep(time.Millisecond) { // a poll of another process, bounded
		states, err := threadStates(p.Cmd.Process.Pid)
		if err != nil {
			t.Fatalf("the threads of %s: %v", p.Cmd, err)
		}
		if !slices.ContainsFunc(states, func(s byte) bool { return !done(s) }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is in states %q %v after %v", p.Cmd, states, signalBound, sig)
		}
	}
}

// threadStates are the states of a process's threads as proc(5) names them. A
// thread that ends meanwhile has none.
func threadStates(pid int) ([]byte, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return nil, err
	}
	var states []byte
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		after := bytes.LastIndexByte(stat, ')') + 2 // the name may have brackets
		if after < 2 || after >= len(stat) {
			return nil, fmt.Errorf("%s: %q", task, stat)
		}
		states = append(states, stat[after])
	}
	if len(states) == 0 {
		return nil, fmt.Errorf("process %d is gone", pid)
	}
	return states, nil
}

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
