// Package cluster runs the real binaries for tests: a master, slaves as
// processes on addresses of loopback, killed, stopped and started again by pid.
// It belongs in a network namespace of the test's own (package netns).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
	"starfish/tests/cpeer"
)

// Wait bounds everything that a test waits for; it is generous because the
// machines that run tests are slow at times.
const Wait = 60 * time.Second

// binEnv names the folder with the binaries; children in namespaces inherit it.
const binEnv = "STARFISH_TEST_BIN"

// Main builds the binaries once, runs the tests, which may run themselves again
// in namespaces, and removes them. It is what TestMain calls.
func Main(m *testing.M) int {
	if os.Getenv(binEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "starfish-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-o", dir, "starfish/cmd/master", "starfish/cmd/slave", "starfish/cmd/portmap", "starfish/cmd/starfish")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		return 1
	}
	os.Setenv(binEnv, dir)
	return m.Run()
}

// Binary is the path of a command that Main built.
func Binary(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv(binEnv)
	require.NotEmpty(t, dir, "TestMain does not call cluster.Main")
	return filepath.Join(dir, name)
}

// Process is one running binary, which may be ended and started again.
type Process struct {
	*cpeer.Process
	name string
	args []string
}

// Start starts a binary and waits for its ready line. A name with a slash is
// the path of another program, strace for one, that runs it.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	p := &Process{name: name, args: args}
	p.Restart(t)
	return p
}

// Restart starts the binary again with the arguments of before.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	path := p.name
	if !filepath.IsAbs(path) {
		path = Binary(t, path)
	}
	p.Process = cpeer.Start(t, exec.Command(path, p.args...))
	p.WaitFor(t, "ready\n", Wait)
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.Cmd.Process.Pid }

// Kill ends the process at once and waits for its end.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGKILL))
	p.Wait(t, Wait)
}

// Terminate asks the process to end, which must succeed.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.NoError(t, p.Wait(t, Wait), "%s at SIGTERM:\n%s", p.name, p.Output())
}

// Cluster is a master with slaves at 127.0.0.2 and on.
type Cluster struct {
	Master *Process
	Slaves []*Process
	Dir    string
}

// Options of a cluster.
type Options struct {
	Slaves     int      // default 3
	Replicas   int      // default 2
	MasterArgs []string // more flags
	SlaveArgs  []string
}

// Addr is the address of slave i, from 0.
func Addr(i int) string { return fmt.Sprintf("127.0.0.%d", i+2) }

// New starts a cluster and waits until all its slaves serve.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Slaves == 0 {
		o.Slaves = 3
	}
	if o.Replicas == 0 {
		o.Replicas = 2
	}
	c := &Cluster{Dir: t.TempDir()}
	args := append([]string{"--data", filepath.Join(c.Dir, "master"), "--replicas", fmt.Sprint(o.Replicas)}, o.MasterArgs...)
	c.Master = Start(t, "master", args...)
	for i := range o.Slaves {
		args := append([]string{"--master", "127.0.0.1", "--addr", Addr(i), "--data", filepath.Join(c.Dir, fmt.Sprint("slave", i))}, o.SlaveArgs...)
		c.Slaves = append(c.Slaves, Start(t, "slave", args...))
	}
	c.AwaitServing(t)
	return c
}

// All is the master and the slaves.
func (c *Cluster) All() []*Process { return append([]*Process{c.Master}, c.Slaves...) }

// AwaitServing waits until the master says that every slave serves.
func (c *Cluster) AwaitServing(t testing.TB) {
	t.Helper()
	AwaitStatus(t, "every slave serves", func(st structs.ClusterStatus) bool {
		serving := 0
		for _, s := range st.Slaves {
			if s.State == structs.SLAVE_SERVING {
				serving++
			}
		}
		return serving == len(c.Slaves)
	})
}

// AwaitStatus polls the master's status until ok says yes.
func AwaitStatus(t testing.TB, what string, ok func(structs.ClusterStatus) bool) {
	t.Helper()
	var last any
	for end := time.Now().Add(Wait); time.Now().Before(end); {
		st, err := status()
		if err == nil && ok(st) {
			return
		}
		last = fmt.Sprintf("%+v %v", st, err)
		time.Sleep(50 * time.Millisecond) // a poll of another process, bounded by Wait
	}
	require.FailNow(t, "waited in vain until "+what, "%v", last)
}

func status() (structs.ClusterStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := portmap.Dial(ctx, "tcp", "127.0.0.1", structs.MASTER_PROG, structs.MASTER_V2, rpc.ClientConfig{})
	if err != nil {
		return structs.ClusterStatus{}, err
	}
	defer c.Close()
	return structs.NewMasterProgMasterV2Client(c).MasterStatus(ctx)
}

// Client is a connection to the master.
type Client struct {
	*structs.MasterProgMasterV2Client
	conn *rpc.Client
}

// Dial connects to the master of the namespace.
func Dial(ctx context.Context) (*Client, error) {
	c, err := portmap.Dial(ctx, "tcp", "127.0.0.1", structs.MASTER_PROG, structs.MASTER_V2, rpc.ClientConfig{})
	if err != nil {
		return nil, err
	}
	return &Client{structs.NewMasterProgMasterV2Client(c), c}, nil
}

// MustDial is Dial for a test, closed at its end.
func MustDial(t testing.TB) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	c, err := Dial(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Query asks and turns a failure into an error.
func (c *Client) Query(ctx context.Context, text string, format structs.RowBitmapFormat) (structs.QueryAnswer, error) {
	r, err := c.MasterQuery(ctx, structs.QueryRequest{Text: structs.QueryText(text), Format: format})
	if err != nil {
		return structs.QueryAnswer{}, err
	}
	if r.Status != structs.QUERY_OK {
		return structs.QueryAnswer{}, failure(r.Status, r.Failure)
	}
	return r.Answer, nil
}

// Put stores a vector given as words.
func (c *Client) Put(ctx context.Context, id uint64, words []uint64, on ...string) error {
	req := structs.PutRequest{Id: id, Rows: structs.RowBitmap{Format: structs.BITMAP_WORDS, Words: words}}
	for _, h := range on {
		req.Holders = append(req.Holders, structs.MachineName(h))
	}
	r, err := c.MasterPut(ctx, req)
	if err != nil {
		return err
	}
	if r.Status != structs.QUERY_OK {
		return failure(r.Status, r.Failure)
	}
	return nil
}

func failure(st structs.QueryStatus, f structs.QueryFailure) error {
	return errors.New(fmt.Sprint(st, ": ", f.Message, " ", f.FailedMachines, " ", f.Vectors))
}

// Null calls procedure 0 of the master.
func (c *Client) Null(ctx context.Context) error {
	return c.conn.Call(ctx, structs.MASTER_PROG, structs.MASTER_V2, 0, nil, nil)
}
