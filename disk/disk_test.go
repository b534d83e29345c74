package disk

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenMakesTheFileAndItsDirectories(t *testing.T) {
	for mode, dirMode := range map[os.FileMode]os.FileMode{0o600: 0o700, 0o640: 0o750} {
		path := filepath.Join(t.TempDir(), "a", "b", "f.db")
		f, err := Open(path, Options{Mode: mode})
		require.NoError(t, err)
		require.NoError(t, f.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("x"))
			return err
		}))
		require.NoError(t, f.Close())
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
		info, err = os.Stat(filepath.Dir(path))
		require.NoError(t, err)
		require.Equal(t, dirMode, info.Mode().Perm())
		f, err = Open(path, Options{})
		require.NoError(t, err)
		require.NoError(t, f.View(func(tx *bbolt.Tx) error {
			require.NotNil(t, tx.Bucket([]byte("x")))
			return nil
		}))
		require.NoError(t, f.Close())
	}
}

func TestOneProcessAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f, err := Open(path, Options{})
	require.NoError(t, err)
	defer f.Close()
	_, err = Open(path, Options{LockTimeout: time.Millisecond})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, path)
}

func TestAPanicInATransactionIsDamage(t *testing.T) {
	var log bytes.Buffer
	f, err := Open(filepath.Join(t.TempDir(), "f.db"), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer f.Close()
	for range 3 {
		require.ErrorIs(t, f.View(func(*bbolt.Tx) error { panic("a page that is none") }), ErrDamaged)
	}
	require.Equal(t, 1, strings.Count(log.String(), "a page that is none"), "in the log")
	require.ErrorIs(t, f.View(func(*bbolt.Tx) error { panic("another page") }), ErrDamaged)
	require.Contains(t, log.String(), "another page")
}

func TestGroupSharesCommits(t *testing.T) {
	type change struct {
		n    int
		done chan struct{}
	}
	release := make(chan struct{})
	began := make(chan struct{}, 1)
	var batches [][]int
	g := NewGroup(GroupConfig[change]{Limit: 3, Commit: func(batch []change) {
		select {
		case began <- struct{}{}:
			<-release
		default:
		}
		var ns []int
		for _, c := range batch {
			ns = append(ns, c.n)
			close(c.done)
		}
		batches = append(batches, ns)
	}})
	var wg sync.WaitGroup
	submit := func(n int) {
		c := change{n, make(chan struct{})}
		require.NoError(t, g.Submit(t.Context(), c))
		<-c.done
	}
	wg.Go(func() { submit(0) })
	require.Eventually(t, func() bool { return len(began) == 1 }, 10*time.Second, time.Millisecond)
	for n := 1; n <= 7; n++ {
		wg.Go(func() { submit(n) })
	}
	close(release)
	wg.Wait()
	g.Close()
	total := 0
	for _, b := range batches {
		require.LessOrEqual(t, len(b), 3)
		total += len(b)
	}
	require.Equal(t, 8, total)
	require.ErrorIs(t, g.Submit(t.Context(), change{}), ErrClosed)
}

func TestGroupClosesABatchByItsWeight(t *testing.T) {
	var sizes []int
	done := make(chan struct{}, 10)
	hold := make(chan struct{})
	g := NewGroup(GroupConfig[int]{Limit: 100, Weight: func(n int) int { return n }, Most: 10, Commit: func(batch []int) {
		<-hold
		sum := 0
		for _, n := range batch {
			sum += n
		}
		sizes = append(sizes, sum)
		for range batch {
			done <- struct{}{}
		}
	}})
	for range 6 {
		go g.Submit(context.Background(), 6)
	}
	close(hold)
	for range 6 {
		<-done
	}
	g.Close()
	for _, s := range sizes {
		require.LessOrEqual(t, s, 12, "a commit takes no further change once it has 10 bytes")
	}
}

func TestSubmitEndsWithItsContext(t *testing.T) {
	hold := make(chan struct{})
	g := NewGroup(GroupConfig[int]{Limit: 1, Commit: func([]int) { <-hold }})
	require.NoError(t, g.Submit(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Submit(ctx, 2), context.Canceled)
	close(hold)
	g.Close()
}

// What bbolt finds too short, and says so without a name, is damage with a name.
func TestAFileThatIsNone(t *testing.T) {
	for _, content := range []string{"x", strings.Repeat("junk", 1250), strings.Repeat("junk", 1<<14)} {
		path := filepath.Join(t.TempDir(), "f.db")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := Open(path, Options{})
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, path)
	}
}
