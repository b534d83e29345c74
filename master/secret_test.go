package master

import (
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/structs"
)

// TestRefusedForWantOfTheSecret: a slave that does not know the master joins as
// soon as it has refused a change, and the change is made then.
func TestRefusedForWantOfTheSecret(t *testing.T) {
	addr := three[0]
	w := newWorld(t, func(c *Config) { c.Replicas = 1 }, addr)
	secret := structs.JoinSecret{1, 2, 3}
	refused := make(chan structs.JoinSecret, 8)
	w.slaves[addr].refuses = func(s structs.JoinSecret) bool {
		if s != secret {
			refused <- s
		}
		return s != secret
	}
	join := func() {
		t.Helper()
		r, err := w.client.MasterJoin(w.ctx(), structs.JoinRequest{Addr: structs.MachineName(addr), Protocol: 2, Instance: w.slaves[addr].instance, Secret: secret})
		require.NoError(t, err)
		require.Equal(t, structs.QUERY_OK, r.Status)
	}
	afterJoin := func(change func() structs.PutResponse) {
		t.Helper()
		done := make(chan structs.PutResponse, 1)
		go func() { done <- change() }()
		<-refused
		join()
		res := <-done
		require.Equal(t, structs.QUERY_OK, res.Status, res.Failure.Message)
	}
	afterJoin(func() structs.PutResponse { return w.tryPut(7, nil, 1) })
	w.put(7, nil, 2)
	require.Empty(t, refused, "what is known is brought at once")

	secret = structs.JoinSecret{4} // the slave process is another one
	afterJoin(func() structs.PutResponse { return w.erase(7) })
	w.finished()

	// A join that names no secret, as the command line's, forgets none.
	w.join(addr)
	w.put(7, nil, 3)
	require.Empty(t, refused)
}
