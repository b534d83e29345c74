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
	"starfish/structs"
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

// TestInventoryFailureNamesNoVector: what cannot be listed is the store, and no
// vector is to blame for that.
func TestInventoryFailureNamesNoVector(t *testing.T) {
	var log bytes.Buffer
	vectors, err := store.Open(filepath.Join(t.TempDir(), "vectors.db"), store.Config{})
	require.NoError(t, err)
	require.NoError(t, vectors.Close())
	h := v2{&Slave{store: vectors, cfg: Config{Addr: a}, log: slog.New(slog.NewTextHandler(&log, nil))}}
	res, err := h.SlaveInventory(t.Context(), structs.InventoryRequest{})
	require.NoError(t, err)
	require.Equal(t, structs.QUERY_FAILED, res.Status)
	require.Equal(t, fmt.Sprintf("the store of %s cannot be listed: its log says why", a), res.Failure.Message)
	require.Equal(t, machineNames(a), res.Failure.FailedMachines)
	require.Empty(t, res.Failure.Vectors)
	require.Zero(t, res.Failure.VectorsTotal)
	require.Contains(t, h.s.problem(), "its disk: ")
	require.Contains(t, log.String(), "the store failed")
	require.NotContains(t, log.String(), " id=")
}
