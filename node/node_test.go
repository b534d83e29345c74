package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childEnv makes the test binary a daemon, for signals.
const childEnv = "STARFISH_TEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		ctx, stop := Signals(context.Background())
		_, _ = io.WriteString(os.Stderr, "up\n")
		<-ctx.Done()
		if os.Getenv(childEnv) == "twice" {
			_, _ = io.WriteString(os.Stderr, "ending\n")
			select {}
		}
		stop()
		os.Exit(7)
	}
	goleak.VerifyTestMain(m)
}

func daemon(t *testing.T, how string) (cmd *exec.Cmd, line func() string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+how)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() string {
		var b []byte
		for c := make([]byte, 1); len(b) == 0 || b[len(b)-1] != '\n'; b = append(b, c...) {
			if _, err := stderr.Read(c); err != nil {
				break
			}
		}
		return string(b)
	}
}

func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd, line := daemon(t, "once")
		require.Equal(t, "up\n", line())
		for _, deaf := range []syscall.Signal{syscall.SIGHUP, syscall.SIGPIPE} {
			require.NoError(t, cmd.Process.Signal(deaf))
		}
		require.NoError(t, cmd.Process.Signal(sig))
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, 7, exit.ExitCode(), "%v: %v", sig, exit)
	}
}

// A second signal ends a daemon that does not come to its end.
func TestSecondSignal(t *testing.T) {
	cmd, line := daemon(t, "twice")
	require.Equal(t, "up\n", line())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "ending\n", line())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// The handler is gone a moment after the context has ended: signals until
	// then have no effect, so that one is sent again.
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case err := <-ended:
			tick.Stop()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())
			return
		case <-tick.C:
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}

func TestSignalsStop(t *testing.T) {
	ctx, stop := Signals(t.Context())
	require.NoError(t, ctx.Err())
	stop()
	require.Error(t, ctx.Err())
}

// broken is a writer that fails while down.
type broken struct {
	bytes.Buffer
	down bool
}

func (b *broken) Write(p []byte) (int, error) {
	if b.down {
		return 0, syscall.EPIPE
	}
	return b.Buffer.Write(p)
}

func TestLog(t *testing.T) {
	var w broken
	l := NewLog("prog", &w)
	write := func(s string) {
		n, err := io.WriteString(l, s)
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	write("one\n")
	w.down = true
	write("two\n")
	write("three\n")
	w.down = false
	write("four\n")
	require.Equal(t, "one\nprog: 2 log lines were lost: broken pipe\nfour\n", w.String())
	require.EqualValues(t, 2, l.Lost())

	w.down = true
	write("five\n")
	var other bytes.Buffer
	l.Close(&other)
	require.Equal(t, "prog: 1 log lines were lost: broken pipe\n", other.String(), "what was told is not told again")
	l.Close(&other)
	require.EqualValues(t, 3, l.Lost())
	require.Equal(t, 1, bytes.Count(other.Bytes(), []byte("\n")))
}

// service is a Service that tells when it was asked to end and ends when it may.
type service struct {
	ready, asked, end chan struct{}
	err               error
}

func newService() *service {
	return &service{make(chan struct{}), make(chan struct{}), make(chan struct{}), nil}
}

func (s *service) Ready() <-chan struct{} { return s.ready }

func (s *service) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		close(s.asked)
		<-s.end
		return nil
	case <-s.end:
		return s.err
	}
}

// supervisor is NOTIFY_SOCKET.
func supervisor(t *testing.T, name string) (told func() string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	return func() string {
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
}

func TestServe(t *testing.T) {
	told := supervisor(t, filepath.Join(t.TempDir(), "notify"))
	n := NewNotifier(slog.New(slog.DiscardHandler))
	require.NotNil(t, n)
	defer n.Close()
	serve := func(ctx context.Context, s *service) <-chan error {
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, s, n, func() string { return "serving\n1" }) }()
		return done
	}

	t.Run("asked to end", func(t *testing.T) {
		s := newService()
		ctx, cancel := context.WithCancel(t.Context())
		done := serve(ctx, s)
		close(s.ready)
		require.Equal(t, "READY=1\nSTATUS=serving 1", told())
		cancel()
		<-s.asked
		require.Equal(t, "STOPPING=1", told(), "while it is still ending")
		close(s.end)
		require.NoError(t, <-done)
	})
	t.Run("asked before it is ready", func(t *testing.T) {
		s := newService()
		ctx, cancel := context.WithCancel(t.Context())
		done := serve(ctx, s)
		cancel()
		require.Equal(t, "STOPPING=1", told())
		close(s.end)
		require.NoError(t, <-done)
	})
	t.Run("ends by itself", func(t *testing.T) {
		s := newService()
		s.err = errors.New("broke")
		done := serve(t.Context(), s)
		close(s.ready)
		require.Equal(t, "READY=1\nSTATUS=serving 1", told())
		close(s.end)
		require.ErrorIs(t, <-done, s.err)
		require.Equal(t, "STOPPING=1", told())
	})
	t.Run("fails to start", func(t *testing.T) {
		s := newService()
		s.err = errors.New("broke")
		close(s.end)
		require.ErrorIs(t, <-serve(t.Context(), s), s.err)
	})
}

func TestNotifier(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n := NewNotifier(slog.Default())
	require.Nil(t, n)
	n.Ready("x") // tells nobody
	n.Stopping()
	n.Close()

	var log bytes.Buffer
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	require.Nil(t, NewNotifier(slog.New(slog.NewTextHandler(&log, nil))))
	require.Contains(t, log.String(), "NOTIFY_SOCKET")

	told := supervisor(t, "@starfish-node-test")
	n = NewNotifier(slog.Default())
	n.Stopping()
	require.Equal(t, "STOPPING=1", told())
	n.Close()
}
