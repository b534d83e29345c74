package slave

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/store"
)

// TestStoreFaultIsLoggedOnce: a full disk is told to each writer, and to the log
// when it begins and when it ends.
func TestStoreFaultIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	vectors, err := store.Open(filepath.Join(t.TempDir(), "vectors.db"), store.Config{})
	require.NoError(t, err)
	defer vectors.Close()
	h := v2{&Slave{store: vectors, cfg: Config{Addr: a}, log: slog.New(slog.NewTextHandler(&log, nil))}}
	full := fmt.Errorf("vector: writing to the store: %w", &fs.PathError{Op: "write", Path: "v.db", Err: syscall.ENOSPC})
	for id := range uint64(3) {
		f := h.storeFailed(id, full)
		require.Equal(t, fmt.Sprintf("vector %d: the store of %s failed: no space left on device", id, a), f.Message)
		require.Equal(t, machineNames(a), f.FailedMachines)
		require.Equal(t, []uint64{id}, f.Vectors)
	}
	require.Equal(t, 1, strings.Count(log.String(), "no space left"))
	f := h.storeFailed(9, fmt.Errorf("%w: vector 9", store.ErrCorrupt))
	require.Contains(t, f.Message, "its log says why")
	h.s.fault.worked(h.s.log, time.Now())
	require.Contains(t, h.s.problem(), "its disk: ", "not for one write that went well")
	h.s.fault.worked(h.s.log, time.Now().Add(faultQuiet))
	h.s.fault.worked(h.s.log, time.Now().Add(faultQuiet))
	require.Empty(t, h.s.problem())
	h.storeFailed(4, full)
	require.Equal(t, 2, strings.Count(log.String(), "no space left"))
	require.Equal(t, 1, strings.Count(log.String(), "works again"))
}
