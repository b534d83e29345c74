package rpc

import (
	"context"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/tests/cpeer"
)

// TestOpenSSL: OpenSSL makes the handshake with our server and with our client.
// It knows nothing of RPC, so the probe is made by hand in between.
func TestOpenSSL(t *testing.T) {
	openssl := cpeer.Tool(t, "openssl")
	p := newTLSParty(t)
	ca, cert, key := p.ca.files(t, p.client.Certificates[0])
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	t.Run("Client", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		bridge := listenBridge(t, afterProbe(t, s))
		cmd := exec.CommandContext(ctx, openssl, "s_client", "-quiet", "-connect", bridge, "-tls1_3", "-alpn", "sunrpc",
			"-CAfile", ca, "-cert", cert, "-key", key, "-servername", "server", "-verify_hostname", "server", "-verify_return_error")
		in, out, log := startPiped(t, cmd)
		_, err := in.Write(record(message(7, procCount, 0, 0, 0, 0)))
		require.NoError(t, err)
		want := record(success(7, 0, 0, 0, 0, 0, 0, 0, 0))
		got := make([]byte, len(want))
		_, err = io.ReadFull(out, got)
		require.NoError(t, err, "%s", log)
		require.Equal(t, want, got)
	})

	t.Run("ClientOfAnotherProtocol", func(t *testing.T) {
		s := newTestServer(t, p.serve(TLSRequired))
		bridge := listenBridge(t, afterProbe(t, s))
		cmd := exec.CommandContext(ctx, openssl, "s_client", "-quiet", "-connect", bridge, "-tls1_3", "-alpn", "h2",
			"-CAfile", ca, "-cert", cert, "-key", key, "-servername", "server")
		text, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(text), "no application protocol")
	})

	t.Run("Server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		accept := l.Addr().String()
		require.NoError(t, l.Close())
		ca, cert, key := p.ca.files(t, p.server.Certificates[0])
		cmd := exec.CommandContext(ctx, openssl, "s_server", "-quiet", "-accept", accept, "-naccept", "1", "-tls1_3", "-alpn", "sunrpc",
			"-CAfile", ca, "-cert", cert, "-key", key, "-Verify", "1", "-verify_return_error")
		in, out, log := startPiped(t, cmd)
		var server net.Conn
		waitFor(t, func() bool {
			server, err = net.Dial("tcp", accept)
			return err == nil
		})
		bridge := listenBridge(t, func(client net.Conn) {
			defer server.Close()
			rec, err := newRecordReader(client, 1000).next(nil)
			if err == nil {
				_, err = client.Write(record(appendRefusal(nil, xidOf(record(rec)), OpaqueAuth{Body: []byte(startTLS)}, &ReplyError{})))
			}
			if err == nil {
				splice(client, server)
			}
		})
		c := dial(t, "tcp", bridge, p.dial(TLSRequired))
		require.Equal(t, "server", c.TLS().PeerCertificates[0].Subject.CommonName)
		done := started(t.Context(), c)
		rec, err := newRecordReader(out, 1000).next(nil)
		require.NoError(t, err, "%s", log)
		_, err = in.Write(record(success(xidOf(record(rec)), 0, 0, 0, 42)))
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.NoError(t, c.Close())
	})
}

// afterProbe passes a TLS client on to a server that was asked for TLS.
func afterProbe(t *testing.T, s *testServer) func(client net.Conn) {
	server := dialRaw(t, "tcp", s.listen(t, "tcp"))
	probe, yes := record(unhex(t, tlsProbe)), record(unhex(t, tlsYes))
	return func(client net.Conn) {
		_, err := server.Write(probe)
		if err == nil {
			_, err = io.ReadFull(server, make([]byte, len(yes)))
		}
		if err == nil {
			splice(client, server)
		}
	}
}

// startPiped starts a program that ends with the test.
func startPiped(t *testing.T, cmd *exec.Cmd) (io.Writer, io.Reader, *strings.Builder) {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	log := new(strings.Builder)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return in, out, log
}

// listenBridge accepts one connection and returns where.
func listenBridge(t *testing.T, serve func(client net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		serve(client)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// splice copies both ways until one side ends.
func splice(a, b net.Conn) {
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(a, b); a.Close(); b.Close(); done <- struct{}{} }()
	go func() { _, _ = io.Copy(b, a); a.Close(); b.Close(); done <- struct{}{} }()
	<-done
	<-done
}
