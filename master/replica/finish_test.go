package replica

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"starfish/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenErrorNamesEachMachineOnce(t *testing.T) {
	var first, second openError
	first.add("a", errors.New("not serving"))
	first.add("b", &peer.FailedError{Machine: "b", Err: errors.New("b: rpc: gone")})
	second.add("a", &first)
	second.add("c", &first)
	require.Equal(t, "a (not serving), b (gone)", second.Error())
	require.Equal(t, []string{"a", "b"}, machinesOf(&second))
}
