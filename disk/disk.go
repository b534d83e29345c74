// Package disk is one bbolt file, as the slave's store and the master's catalog
// need it: opened by one process, checked, made durable with its directory, and
// read so that a damaged page is an error and not the end of the process.
//
// What a file holds is its user's business. A change is on disk when Update
// returns; Group lets the changes of many callers share one Update.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var (
	ErrLocked  = errors.New("disk: in use by another process")        // one process a file
	ErrDamaged = errors.New("disk: the file is not what was written") // no bbolt file, or pages that were changed
)

const (
	defaultMode = 0o600
	defaultWait = time.Second
)

// Options are how a file is opened; the zero value is the default.
type Options struct {
	Mode        fs.FileMode   // of a file that is made; 0: 0600. Its directory can be entered by who may read it
	LockTimeout time.Duration // how long to wait for another process to let go of the file; 0: 1 s
	Logger      *slog.Logger  // nil: none
}

// File is an open file. All methods may be called concurrently.
type File struct {
	path string
	db   *bbolt.DB
	log  *slog.Logger
	told sync.Map // texts of panics that are in the log, with their stacks
}

// Open opens the file at path, which it makes where there is none, with its
// directories. The error is ErrLocked, ErrDamaged, or one of the file system.
func Open(path string, o Options) (f *File, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultWait
	}
	if o.Mode == 0 {
		o.Mode = defaultMode
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, o.Mode|o.Mode>>2&0o111|0o100); err != nil {
		return nil, fmt.Errorf("disk: making the directory: %w", err)
	}
	f = &File{path: path, log: o.Logger}
	if err := f.open(o); err != nil {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		f.db.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open(o Options) (err error) {
	defer f.guard(&err)()
	// The freelist is synced: without it, opening walks over every page, and does
	// so on a goroutine of bbolt's where a damaged page ends the process.
	f.db, err = bbolt.Open(f.path, o.Mode, &bbolt.Options{Timeout: o.LockTimeout, FreelistType: bbolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s: end the other one, or choose another data directory", ErrLocked, f.path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %s: %w", ErrDamaged, f.path, err)
	case err != nil && !errors.As(err, new(*fs.PathError)): // bbolt's own words, as of a file that is too short
		return fmt.Errorf("%w: %s: %w", ErrDamaged, f.path, err)
	case err != nil:
		return fmt.Errorf("disk: open: %w", err)
	}
	if err = f.checkSize(); err != nil {
		f.db.Close()
	}
	return err
}

// checkSize refuses a file that ends before its last page: reading past the end
// of a mapped file is a fault of the machine.
func (f *File) checkSize() error {
	return f.db.View(func(tx *bbolt.Tx) error {
		info, err := os.Stat(f.path)
		if err == nil && info.Size() < tx.Size() {
			return fmt.Errorf("%w: %s: file of %d bytes, its pages need %d", ErrDamaged, f.path, info.Size(), tx.Size())
		}
		return err
	})
}

// syncDir makes a new file's name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("disk: syncing the directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("disk: syncing the directory: %w", err)
	}
	return nil
}

// guard turns a panic of bbolt, or a fault of the mapped file, on this goroutine
// into ErrDamaged: both come from pages that are not what was written. Use:
// defer f.guard(&err)().
func (f *File) guard(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = fmt.Errorf("%w: %s: %v", ErrDamaged, f.path, p)
			f.tell(fmt.Sprint(p))
		}
	}
}

// tell logs a panic, each text of one once: who reads a damaged page reads it
// again and again. There are about as many texts as there are pages.
func (f *File) tell(text string) {
	if _, again := f.told.LoadOrStore(text, true); again {
		f.log.Debug("disk: reading failed", "path", f.path, "panic", text)
		return
	}
	f.log.Error("disk: reading failed", "path", f.path, "panic", text, "stack", string(debug.Stack()))
}

// Path is where the file is.
func (f *File) Path() string { return f.path }

// View runs read in a read transaction: what it sees is of one moment, and what
// it keeps of the file's bytes is good only until it returns.
func (f *File) View(read func(*bbolt.Tx) error) (err error) {
	defer f.guard(&err)()
	return f.db.View(read)
}

// Update runs change in the one write transaction and syncs it to disk. After an
// error nothing of it is there, unless syncing failed: then it may be.
func (f *File) Update(change func(*bbolt.Tx) error) (err error) {
	defer f.guard(&err)()
	return f.db.Update(change)
}

// Writes is how many pages were written since the file was opened.
func (f *File) Writes() int64 {
	stats := f.db.Stats()
	return stats.TxStats.GetWrite()
}

// Close closes the file, after the transactions that run.
func (f *File) Close() error {
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("disk: close: %w", err)
	}
	return nil
}
