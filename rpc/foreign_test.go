package rpc

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	foreign "github.com/willscott/go-nfs-client/nfs/rpc"
	foreignxdr "github.com/willscott/go-nfs-client/nfs/xdr"
)

// ForeignHeader is a call's header as the foreign client encodes it: it sees
// exported fields alone.
type ForeignHeader struct {
	Rpcvers, Prog, Vers, Proc uint32
	Cred, Verf                foreign.Auth
}

type foreignMulti struct {
	ForeignHeader
	A int32
	S string
	B uint64
}

// TestForeignClient: the RPC client of go-nfs-client, which shares no code with
// ours, is answered by our server.
func TestForeignClient(t *testing.T) {
	s := newTestServer(t, ServerConfig{})
	addr := s.listen(t, "tcp")
	var c *foreign.Client
	var err error
	for range 10 { // it draws its port, and may draw one in use
		if c, err = foreign.DialTCP("tcp", addr, false); err == nil {
			break
		}
	}
	require.NoError(t, err)
	defer c.Close()
	sys := foreign.NewAuthUnix("host", 1, 2).Auth()
	head := func(prog, vers, proc uint32, cred foreign.Auth) ForeignHeader {
		return ForeignHeader{2, prog, vers, proc, cred, foreign.AuthNull}
	}
	t.Run("Null", func(t *testing.T) {
		for _, cred := range []foreign.Auth{foreign.AuthNull, sys} {
			_, err := c.Call(head(testProg, 1, procNull, cred))
			require.NoError(t, err)
		}
	})
	t.Run("Multi", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range int32(20) {
			wg.Go(func() {
				res, err := c.Call(foreignMulti{head(testProg, 1, procMulti, sys), i, "four", 100})
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := foreignxdr.ReadUint32(res); err != nil || n != uint32(i)+104 {
					t.Errorf("%d, %v", n, err)
				}
				if rest, _ := io.ReadAll(res); len(rest) > 0 {
					t.Errorf("%d bytes are left", len(rest))
				}
			})
		}
		wg.Wait()
	})
	for _, r := range []struct {
		h    ForeignHeader
		want string
	}{
		{head(testProg+1, 1, 0, sys), "PROG_UNAVAIL"},
		{head(testProg, 2, 0, sys), "PROG_MISMATCH"},
		{head(testProg, 1, 77, sys), "PROC_UNAVAIL"},
		{head(testProg, 1, procMulti, sys), "GARBAGE_ARGS"},
		{head(testProg, 1, procFail, sys), "SYSTEM_ERR"},
	} {
		t.Run(fmt.Sprint(r.want), func(t *testing.T) {
			_, err := c.Call(r.h)
			require.ErrorContains(t, err, r.want)
		})
	}
}
