package delegate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSeeds(t *testing.T) {
	a, b := newSeeds(5), newSeeds(5)
	for range 10 {
		require.Equal(t, a.of(0), b.of(0))
	}
	require.EqualValues(t, 7, a.of(7))
	require.NotZero(t, newSeeds(0).of(0))
}
