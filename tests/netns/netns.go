//go:build linux

// Package netns runs a test in namespaces of its own, so that it can serve
// port 111 and /run/rpcbind.sock without touching the host's.
//
//	func TestRealPeers(t *testing.T) {
//		if !netns.Enter(t) {
//			return // the test ran in the child; its result is this test's
//		}
//		... // lo is up, /run is empty, every port is free
//	}
//
// It needs root; without it the test is skipped, or fails where
// INTEROP=require.
package netns

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starfish/tests/cpeer"
)

// childEnv names, in the child, the test that is to run there.
const childEnv = "STARFISH_TEST_NETNS"

// defaultTimeout bounds a child where the test has no deadline.
const defaultTimeout = 10 * time.Minute

// Enter runs the calling test again in a child process with a network, mount
// and process namespace of its own, and takes over its result. It returns true
// in the child, where the test goes on, and false in the parent, which is then
// to return. Whatever the child leaves running ends with it.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		if err := setup(); err != nil {
			t.Fatalf("netns: %v", err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		cpeer.Unavailable(t, "netns: namespaces need root")
	}
	out, err := reexec(t)
	switch {
	case errors.Is(err, unix.EPERM):
		cpeer.Unavailable(t, "netns: this system allows no namespaces: %v", err)
	case err != nil:
		t.Fatalf("netns: in the namespace: %v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP: "+t.Name()+" ")):
		t.Skipf("netns: skipped in the namespace\n%s", out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")):
		t.Fatalf("netns: the test did not run in the namespace\n%s", out)
	default:
		t.Logf("in the namespace:\n%s", out)
	}
	return false
}

func reexec(t *testing.T) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	timeout := defaultTimeout
	if deadline, ok := t.Deadline(); ok {
		timeout = time.Until(deadline) - time.Second
	}
	cmd := exec.Command(self, "-test.run="+pattern(t.Name()), "-test.v", "-test.count=1",
		fmt.Sprintf("-test.timeout=%v", timeout))
	cmd.Env = append(os.Environ(), childEnv+"="+t.Name())
	if os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // else a second each child
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
	}
	// The death signal follows the thread that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.CombinedOutput()
}

// pattern matches the one (sub)test called name.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// setup makes the fresh namespaces usable: mounts are private, /proc shows the
// new process namespace, /run is empty and the loopback interface is up.
func setup() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	return linkUp("lo")
}

func linkUp(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("flags of %s: %w", name, err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}
