package cluster_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	_ "starfish/master" // what the binaries are made of: a change there makes a cached result stale
	_ "starfish/slave"
	"starfish/tests/cluster"
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m))
}

// peak is the largest resident set that a process ever had, in bytes.
func peak(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	require.NotNil(t, m)
	kb, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return kb << 10
}
