package slave

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/store"
)

// TestStoreFaultIsLoggedOnce: a full disk is told to each writer, and to the log
// when it begins and when it ends.
func TestStoreFaultIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := v2{&Slave{cfg: Config{Addr: a}, log: slog.New(slog.NewTextHandler(&log, nil))}}
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
	h.s.storeWorks()
	h.s.storeWorks()
	h.storeFailed(4, full)
	require.Equal(t, 2, strings.Count(log.String(), "no space left"))
	require.Equal(t, 1, strings.Count(log.String(), "works again"))
}
