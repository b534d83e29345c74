package rpc

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/xdr"
)

// BenchmarkNull is one caller that makes NULL calls one after the other.
func BenchmarkNull(b *testing.B) {
	for _, network := range []string{"tcp", "unix", "udp"} {
		b.Run(network, func(b *testing.B) {
			c := benchClient(b, network)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Call(b.Context(), testProg, 1, procNull, nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNull64 keeps 64 NULL calls in flight on one connection.
func BenchmarkNull64(b *testing.B) {
	c := benchClient(b, "tcp")
	inFlight(b, 64, func() error { return c.Call(b.Context(), testProg, 1, procNull, nil, nil) })
}

// BenchmarkEcho sends 1 KiB and compares what comes back.
func BenchmarkEcho(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "one", 64: "64"}[callers], func(b *testing.B) {
			c := benchClient(b, "tcp")
			want := appendList(nil, []node{{string(bytes.Repeat([]byte("x"), 1000)), 7}})
			inFlight(b, callers, func() error {
				same := false
				err := c.Call(b.Context(), testProg, 1, procEcho,
					xdr.AppendFunc(func(b []byte) ([]byte, error) { return append(b, want...), nil }),
					xdr.DecodeFunc(func(d *xdr.Decoder) error { same = bytes.Equal(d.Rest(), want); return nil }))
				if err == nil && !same {
					b.Error("another answer")
				}
				return err
			})
		})
	}
}

func benchClient(b *testing.B, network string) *Client {
	s := newTestServer(b, ServerConfig{})
	c := dial(b, network, s.listen(b, network), ClientConfig{})
	require.NoError(b, c.Call(b.Context(), testProg, 1, procNull, nil, nil))
	return c
}

// inFlight has so many goroutines share the benchmark's calls.
func inFlight(b *testing.B, callers int, call func() error) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Go(func() {
			for range n {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
