//go:build linux

package netns

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starfish/tests/cpeer"
)

// A Host stands in for another machine: a network namespace and a /run of its
// own, so that a portmapper of its own has port 111 and /run/rpcbind.sock.
// Inside Enter only.
type Host struct {
	Name string
	pid  int // of the process that keeps the namespaces alive
}

// holdScript prepares the namespaces and then keeps them.
const holdScript = `mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up && echo held && exec sleep 86400`

// NewHost makes a host whose only interface is lo. It lasts until the test
// ends.
func NewHost(t testing.TB, name string) *Host {
	t.Helper()
	if os.Getenv(childEnv) == "" {
		t.Fatal("netns: NewHost outside of Enter")
	}
	cpeer.Require(t, "unshare", "nsenter", "ip", "mount")
	p := cpeer.Start(t, exec.Command(cpeer.Tool(t, "unshare"), "--net", "--mount", "/bin/sh", "-c", holdScript))
	p.WaitFor(t, "held", 30*time.Second)
	return &Host{Name: name, pid: p.Cmd.Process.Pid}
}

// Command is exec.Command on the host h; nil is the test's own host.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	if h == nil {
		return exec.Command(name, args...)
	}
	all := append([]string{"--target", strconv.Itoa(h.pid), "--net", "--mount", "--wd=.", name}, args...)
	return exec.Command("nsenter", all...)
}

// Do calls f in h's network: sockets that f opens belong to h and stay there.
// f must not start goroutines that open sockets. /run stays the test's. A nil
// host is the test's own.
func (h *Host) Do(f func() error) error {
	if h == nil {
		return f()
	}
	errc := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", h.pid))
		if err != nil {
			errc <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			errc <- fmt.Errorf("netns: enter %s: %w", h.Name, err)
			return
		}
		errc <- f()
	}()
	return <-errc
}

// Link puts a virtual cable between a and b; nil is the test's own host. Each
// end gets its address (CIDR, like "10.7.0.1/24"). Interface names are made of
// the host's name of the far end, at most 15 bytes.
func Link(t testing.TB, a *Host, addrA string, b *Host, addrB string) {
	t.Helper()
	nameA, nameB := "to-"+b.name(), "to-"+a.name()
	mustRun(t, a.Command("ip", "link", "add", nameA, "type", "veth", "peer", "name", nameB, "netns", strconv.Itoa(b.nspid())))
	for _, end := range []struct {
		h          *Host
		name, addr string
	}{{a, nameA, addrA}, {b, nameB, addrB}} {
		mustRun(t, end.h.Command("ip", "addr", "add", end.addr, "dev", end.name))
		mustRun(t, end.h.Command("ip", "link", "set", end.name, "up"))
	}
}

// AddAddr gives h's interface dev another address (CIDR).
func AddAddr(t testing.TB, h *Host, dev, addr string) {
	t.Helper()
	mustRun(t, h.Command("ip", "addr", "add", addr, "dev", dev))
}

func (h *Host) name() string {
	if h == nil {
		return "test"
	}
	return h.Name
}

func (h *Host) nspid() int {
	if h == nil {
		return os.Getpid()
	}
	return h.pid
}

func mustRun(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
