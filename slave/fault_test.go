package slave

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/store"
)

// TestStoreFaultStays: a full disk that takes a write now and then is one fault,
// told once, until all went well for a while.
func TestStoreFaultStays(t *testing.T) {
	var log strings.Builder
	l := slog.New(slog.NewTextHandler(&log, nil))
	vectors, err := store.Open(filepath.Join(t.TempDir(), "vectors.db"), store.Config{Logger: l})
	require.NoError(t, err)
	defer vectors.Close()
	s := &Slave{store: vectors}
	now := time.Unix(0, 0)
	full := func(id uint64) error { return fmt.Errorf("store: vector %d: %w", id, syscall.ENOSPC) }
	require.Empty(t, s.problem())
	for id := range uint64(5) {
		s.fault.failed(l, full(id), now)
		now = now.Add(faultQuiet / 2)
		s.fault.worked(l, now)
		require.Equal(t, "its disk: no space left on device", s.problem())
	}
	now = now.Add(faultQuiet / 2)
	s.fault.worked(l, now)
	require.Empty(t, s.problem())
	s.fault.worked(l, now)
	require.Equal(t, 1, strings.Count(log.String(), "the store failed"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "works again"), log.String())

	s.fault.failed(l, fmt.Errorf("%s", strings.Repeat("ä", 400)), now)
	require.LessOrEqual(t, len(s.problem()), 255)
}
