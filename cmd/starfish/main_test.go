package main

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// silent is a portmapper that hears calls and never answers; it tells of each
// connection.
func silent(t *testing.T) (heard <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Setenv("STARFISH_PORTMAP", l.Addr().String())
	conns := make(chan struct{}, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			conns <- struct{}{}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return conns
}

// TestInterrupted: whoever is not answered and presses Ctrl-C is told so, and a
// script sees it in the exit code.
func TestInterrupted(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"query", "P:7"}, {"put", "7", "--rows", "1"}, {"delete", "1-5"}, {"members", "--json"}} {
		heard := silent(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-heard; cancel() }()
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitInterrupted, run(ctx, args, nil, &stdout, &stderr), args)
		require.Equal(t, "starfish: interrupted\n", stderr.String())
		require.Empty(t, stdout.String())
	}
}

// TestTimeout: no answer in time is not "no master".
func TestTimeout(t *testing.T) {
	silent(t)
	for _, args := range [][]string{{"status"}, {"query", "P:7"}, {"put", "7", "--rows", "1"}, {"load", "/dev/null"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), append(args, "--timeout", "20ms"), nil, &stdout, &stderr), args)
		require.Equal(t, "starfish: no answer from 127.0.0.1 within 20ms\nallow more with --timeout\n", stderr.String())
	}
}
