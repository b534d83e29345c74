//go:build linux

// Package cli runs the starfish command as people do: transcripts under
// testdata, and every command of the documents. Each runs in a network
// namespace of its own, with the ports of a real host.
package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// ready bounds the wait for a cluster on a slow machine.
const ready = 60 * time.Second

// binEnv tells a test in its namespace where the built commands are.
const binEnv = "STARFISH_TEST_BIN"

var update = flag.Bool("update", false, "rewrite the transcripts' expected output")

func TestMain(m *testing.M) {
	flag.Parse()
	built := ""
	if os.Getenv(binEnv) == "" {
		var err error
		if built, err = build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Setenv(binEnv, built)
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "starfish-cli-"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for programs that are not root's
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/starfish", "./cmd/slave", "./cmd/master", "./cmd/portmap") // rpcgen would hide C's
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			if !netns.Enter(t) {
				return
			}
			cpeer.Require(t, needs[filepath.Base(file)]...)
			transcript(t, file)
		})
	}
}

// needs are the programs of others that a transcript uses.
var needs = map[string][]string{
	"portmapper.txtar": {"rpcbind", "rpcinfo", "setpriv", "ip"},
}

// transcript runs one file. Beside testscript's own commands it may use
//
//	up [FLAGS]           start 'starfish up' and wait until it is ready
//	spawn PROG ...       start another program that prints ready
//	down                 end the last started program, which must exit with 0;
//	                     what it printed is then in up.out and up.err
//	exitcode N PROG ...  run a program that must exit with N
func transcript(t *testing.T, file string) {
	var mu sync.Mutex
	var running []*daemon
	start := func(ts *testscript.TestScript, args ...string) {
		d, err := startDaemon(ts, args)
		if err != nil {
			ts.Fatalf("%v", err)
		}
		mu.Lock()
		running = append(running, d)
		mu.Unlock()
		if err := d.waitReady(); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	testscript.Run(t, testscript.Params{
		Files:               []string{file},
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", os.Getenv(binEnv)+string(os.PathListSeparator)+os.Getenv("PATH")+":/usr/sbin:/sbin")
			env.Defer(func() {
				for _, d := range running {
					d.cmd.Process.Kill()
					<-d.done
				}
			})
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"up": func(ts *testscript.TestScript, neg bool, args []string) {
				start(ts, append([]string{"starfish", "up"}, args...)...)
			},
			"spawn": func(ts *testscript.TestScript, neg bool, args []string) { start(ts, args...) },
			"down": func(ts *testscript.TestScript, neg bool, args []string) {
				d := running[len(running)-1]
				running = running[:len(running)-1]
				if err := d.stop(ts); err != nil {
					ts.Fatalf("%v", err)
				}
			},
			"exitcode": exitCode,
		},
	})
}

// exitCode runs a program as exec does and looks at its exit code.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N PROG ...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, not %s", got, args[0])
	}
}

// daemon is a program that runs until it is ended.
type daemon struct {
	cmd      *exec.Cmd
	out, err output
	done     chan struct{} // closed when it has ended
}

func startDaemon(ts *testscript.TestScript, args []string) (*daemon, error) {
	path := filepath.Join(os.Getenv(binEnv), args[0])
	if _, err := os.Stat(path); err != nil {
		path = args[0]
	}
	d := &daemon{cmd: exec.Command(path, args[1:]...), done: make(chan struct{})}
	d.cmd.Dir = ts.Getenv("WORK")
	d.cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"), "TMPDIR="+ts.Getenv("TMPDIR"), "HOME="+ts.Getenv("HOME"))
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.err
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.cmd.Wait()
		close(d.done)
	}()
	return d, nil
}

func (d *daemon) waitReady() error {
	select {
	case <-d.out.lineReady():
		return nil
	case <-d.done:
		return fmt.Errorf("%s ended before it was ready: %v\n%s%s", d.cmd, d.cmd.ProcessState, d.out.String(), d.err.String())
	case <-time.After(ready):
		return fmt.Errorf("%s is not ready after %v\n%s%s", d.cmd, ready, d.out.String(), d.err.String())
	}
}

func (d *daemon) stop(ts *testscript.TestScript) error {
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-d.done:
	case <-time.After(ready):
		d.cmd.Process.Kill()
		return fmt.Errorf("%s did not end\n%s", d.cmd, d.err.String())
	}
	os.WriteFile(ts.MkAbs("up.out"), []byte(d.out.String()), 0o644)
	os.WriteFile(ts.MkAbs("up.err"), []byte(d.err.String()), 0o644)
	if got := d.cmd.ProcessState.ExitCode(); got != 0 {
		return fmt.Errorf("%s: exit code %d\n%s%s", d.cmd, got, d.out.String(), d.err.String())
	}
	return nil
}

// output keeps what a program prints, and tells when "ready" was a line of it.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	ready chan struct{}
	told  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	if !o.told && bytes.Contains(append([]byte("\n"), o.buf.Bytes()...), []byte("\nready\n")) {
		o.told = true
		close(o.channel())
	}
	return len(p), nil
}

// channel is made by whoever needs it first; mu is held.
func (o *output) channel() chan struct{} {
	if o.ready == nil {
		o.ready = make(chan struct{})
	}
	return o.ready
}

func (o *output) lineReady() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.channel()
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
