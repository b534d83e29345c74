//go:build linux

package rpcload

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// inNamespaceEnv says that the benchmarks are in their namespace.
const inNamespaceEnv = "STARFISH_TEST_LOAD_NETNS"

const timeout = 60 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	if role := roleOf(); len(role) > 0 {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if flag.Lookup("test.bench").Value.String() != "" && os.Geteuid() == 0 && os.Getenv(inNamespaceEnv) == "" {
		os.Exit(benchInNamespace())
	}
	code := m.Run()
	results.print(os.Stdout)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// benchInNamespace runs this binary again, with a portmapper's port and socket
// free.
func benchInNamespace() int {
	const prepare = `mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up && exec "$0" "$@"`
	cmd := exec.Command("unshare", append([]string{"--net", "--mount", "sh", "-c", prepare}, os.Args...)...)
	cmd.Env = append(os.Environ(), inNamespaceEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
			return cmd.ProcessState.ExitCode()
		}
		fmt.Fprintln(os.Stderr, "rpcload:", err)
		return 1
	}
	return 0
}

// shape is how many calls are made at once, and how.
type shape struct {
	name                   string
	procs, conns, inFlight int // processes; of each, connections and calls in flight
	network                string
	goOnly                 bool
}

var shapes = []shape{
	{"One", 1, 1, 1, "tcp", false},
	{"OneUDP", 1, 1, 1, "udp", false},
	{"8Processes", 8, 1, 1, "tcp", false},
	{"64InFlight", 1, 1, 64, "tcp", true}, // a C client has one call at a time
	{"1000Connections", 8, 125, 1, "tcp", false},
}

// BenchmarkLoad has for each work, shape and kind of client both servers, side by
// side.
func BenchmarkLoad(b *testing.B) {
	if os.Getenv(inNamespaceEnv) == "" {
		b.Skip("needs root, for a namespace")
	}
	w := newWorld(b)
	for _, work := range []string{"Null", "Echo"} {
		for _, s := range shapes {
			for _, lang := range []string{"C", "Go"} {
				if lang == "C" && s.goOnly {
					continue
				}
				for _, server := range []string{"libtirpc", "starfish"} {
					w.bench(b, fmt.Sprintf("%s/%s/%s/%s", work, s.name, lang, server), work, s, lang, server)
				}
			}
		}
	}
}

// bench is one cell. The clients are kept while the number of calls grows.
func (w *world) bench(b *testing.B, name, work string, s shape, lang, server string) {
	var crowd *crowd
	b.Run(name, func(b *testing.B) {
		if crowd == nil {
			crowd = w.start(b, work, s, lang, server)
		}
		b.ResetTimer()
		r := crowd.run(b, b.N)
		b.StopTimer()
		b.ReportMetric(float64(r.took)/float64(b.N), "ns/op")
		b.ReportMetric(float64(r.p50)/1e3, "p50-us")
		b.ReportMetric(float64(r.p99)/1e3, "p99-us")
		b.ReportMetric(r.rate, "calls/s")
		b.ReportMetric(r.cpu, "server-us/call")
		results.add(name, r)
	})
	if crowd != nil {
		crowd.stop()
	}
}

// TestLoad makes a few calls of each kind.
func TestLoad(t *testing.T) {
	cpeer.Require(t, "gcc", "rpcgen", "libtirpc")
	if !netns.Enter(t) {
		return
	}
	w := newWorld(t)
	for _, work := range []string{"Null", "Echo"} {
		for _, s := range shapes {
			if s.conns > 10 {
				s.procs, s.conns = 2, 50
			}
			for _, lang := range []string{"C", "Go"} {
				for _, server := range []string{"libtirpc", "starfish"} {
					if lang == "C" && s.goOnly {
						continue
					}
					t.Run(strings.Join([]string{work, s.name, lang, server}, "/"), func(t *testing.T) {
						c := w.start(t, work, s, lang, server)
						defer c.stop()
						r := c.run(t, 200)
						require.Positive(t, r.p50)
						require.LessOrEqual(t, r.p50, r.p99)
					})
				}
			}
		}
	}
}

// world is the servers, registered with a portmapper.
type world struct {
	dir     string
	progs   map[string]uint32
	servers map[string]*cpeer.Process
}

// built is what build made.
var built string

// build compiles the C programs, once.
func build(t testing.TB) string {
	t.Helper()
	cpeer.Require(t, "gcc", "rpcgen", "libtirpc")
	if built != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "rpcload")
	require.NoError(t, err)
	built = dir
	path := func(name string) string {
		p, err := filepath.Abs(filepath.Join("testdata", name))
		require.NoError(t, err)
		return p
	}
	stubs := cpeer.Rpcgen(t, dir, path("load.x"), "-C")
	main := cpeer.ServerMain(t, stubs, path("load.x"), []string{"tcp", "udp"}, "-C")
	cpeer.Compile(t, dir, "server", []string{main, stubs.XDR, path("server.c")}, "-O2", "-w")
	cpeer.Compile(t, dir, "client", []string{stubs.XDR, path("client.c")}, "-O2", "-Wall", "-Wextra", "-Wno-unused-variable")
	return dir
}

func newWorld(t testing.TB) *world {
	w := &world{
		dir:     build(t),
		progs:   map[string]uint32{"libtirpc": loadProg, "starfish": loadProg + 1},
		servers: map[string]*cpeer.Process{},
	}
	startPortmap(t)
	w.servers["libtirpc"] = cpeer.Start(t, exec.Command("sh", "-c", "ulimit -n 8192; exec "+filepath.Join(w.dir, "server")))
	ours := self(fmt.Sprintf("server %d", w.progs["starfish"]))
	in, err := ours.StdinPipe() // it ends with us
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	w.servers["starfish"] = cpeer.Start(t, ours)
	w.servers["starfish"].WaitFor(t, "ready", timeout)
	for name, prog := range w.progs {
		for _, network := range []string{"tcp", "udp"} {
			require.Eventually(t, func() bool {
				_, err := portmap.Lookup(t.Context(), network, "127.0.0.1", prog, loadVers)
				return err == nil
			}, timeout, 10*time.Millisecond, "%s does not register", name)
		}
	}
	return w
}

// startPortmap serves port 111 and /run/rpcbind.sock in this process.
func startPortmap(t testing.TB) {
	s, err := portmap.New(portmap.Config{SocketPath: portmap.DefaultSocket})
	require.NoError(t, err)
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		require.NoError(t, err)
	}
	t.Cleanup(func() { <-ended })
}

// self is this binary in a role.
func self(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}

// crowd is clients that are ready.
type crowd struct {
	server  *cpeer.Process
	members []*member
}

type member struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
	err *readyWriter
}

// readyWriter closes ready when "ready" is written.
type readyWriter struct {
	mu    sync.Mutex
	text  strings.Builder
	ready chan struct{}
}

func (w *readyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), "ready\n")
	w.text.Write(p)
	if !before && strings.Contains(w.text.String(), "ready\n") {
		close(w.ready)
	}
	return len(p), nil
}

func (w *readyWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// start starts the clients of a shape.
func (w *world) start(t testing.TB, work string, s shape, lang, server string) *crowd {
	c := &crowd{server: w.servers[server]}
	for range s.procs {
		args := []string{"127.0.0.1", fmt.Sprint(w.progs[server]), s.network, strings.ToLower(work), fmt.Sprint(s.conns)}
		cmd := exec.Command(filepath.Join(w.dir, "client"), args...)
		if lang == "Go" {
			cmd = self("client " + strings.Join(args, " ") + " " + fmt.Sprint(s.inFlight))
		}
		m := &member{cmd: cmd, err: &readyWriter{ready: make(chan struct{})}}
		var err error
		m.in, err = cmd.StdinPipe()
		require.NoError(t, err)
		m.out, err = cmd.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = m.err
		require.NoError(t, cmd.Start())
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		select {
		case <-m.err.ready:
		case <-time.After(timeout):
			c.stop()
			t.Fatalf("%s is not ready: %s", m.cmd, m.err)
		}
	}
	return c
}

func (c *crowd) stop() {
	for _, m := range c.members {
		_ = m.in.Close()
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait() // killed
	}
}

// result is what one run showed.
type result struct {
	took     time.Duration // from the first call to the last
	p50, p99 time.Duration
	rate     float64 // calls a second
	cpu      float64 // the server's microseconds a call
}

// run has the clients make n calls together.
func (c *crowd) run(t testing.TB, n int) result {
	before := cpuTime(t, c.server.Cmd.Process.Pid)
	for i, m := range c.members {
		share := n / len(c.members)
		if i < n%len(c.members) {
			share++
		}
		_, err := fmt.Fprintln(m.in, share)
		require.NoError(t, err, "%s", m.err)
	}
	var all []uint32
	begin, end := uint64(1<<63), uint64(0)
	for _, m := range c.members {
		var head [3]uint64
		require.NoError(t, binary.Read(m.out, binary.NativeEndian, &head), "%s", m.err)
		took := make([]uint32, head[2])
		require.NoError(t, binary.Read(m.out, binary.NativeEndian, took), "%s", m.err)
		if len(took) > 0 {
			begin, end = min(begin, head[0]), max(end, head[1])
		}
		all = append(all, took...)
	}
	require.Len(t, all, n)
	cpu := cpuTime(t, c.server.Cmd.Process.Pid) - before
	slices.Sort(all)
	at := func(q float64) time.Duration { return time.Duration(all[min(int(q*float64(n)), n-1)]) }
	took := time.Duration(end - begin)
	return result{took: took, p50: at(0.5), p99: at(0.99), rate: float64(n) / took.Seconds(), cpu: float64(cpu.Microseconds()) / float64(n)}
}

// cpuTime is the processor time that a process has used.
func cpuTime(t testing.TB, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	require.NoError(t, err)
	var ns int64
	_, err = fmt.Sscan(string(text), &ns)
	require.NoError(t, err)
	// schedstat is the first thread's; a process of several has them under task.
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	require.NoError(t, err)
	if len(tasks) > 1 {
		ns = 0
		for _, f := range tasks {
			text, err := os.ReadFile(f)
			if err != nil {
				continue // it has ended
			}
			var one int64
			_, err = fmt.Sscan(string(text), &one)
			require.NoError(t, err)
			ns += one
		}
	}
	return time.Duration(ns)
}

// table is the results of a run.
type table struct {
	mu    sync.Mutex
	order []string // without the server
	cells map[string]result
}

var results = table{cells: map[string]result{}}

func (t *table) add(name string, r result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if row := filepath.Dir(name); !slices.Contains(t.order, row) {
		t.order = append(t.order, row)
	}
	t.cells[name] = r // the last one has most calls
}

// print writes the servers side by side.
func (t *table) print(out io.Writer) {
	if len(t.order) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tp50 us\t\tp99 us\t\tcalls/s\t\tserver us/call\t\tp50\tcalls/s\t")
	fmt.Fprintln(w, "work/shape/client\tlibtirpc\tstarfish\tlibtirpc\tstarfish\tlibtirpc\tstarfish\tlibtirpc\tstarfish\tratio\tratio\t")
	for _, row := range t.order {
		a, b := t.cells[row+"/libtirpc"], t.cells[row+"/starfish"]
		us := func(d time.Duration) float64 { return float64(d) / 1e3 }
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", row, us(a.p50), us(b.p50), us(a.p99), us(b.p99),
			a.rate, b.rate, a.cpu, b.cpu, us(b.p50)/us(a.p50), b.rate/a.rate)
	}
	_ = w.Flush() // to standard output
}
