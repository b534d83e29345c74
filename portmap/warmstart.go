package portmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"starfish/xdr"
)

const (
	// DefaultWarmStart is the file of rpcbind's -w on Debian: what rpcbind left
	// we read, and what we leave rpcbind reads.
	DefaultWarmStart = "/run/rpcbind/rpcbind.xdr"
	// pmapFile is beside it, with what version 2 shows: rpcbind reads both.
	pmapFile = "portmap.xdr"

	// saveInterval is the least time between two writes of the file.
	saveInterval = 200 * time.Millisecond
	// maxWarmStart bounds what is read of the file.
	maxWarmStart = 2 * MaxListBytes
)

// warmStart keeps the registrations in a file: the list that versions 3 and 4
// answer to DUMP (rpcblist_ptr of RFC 1833 section 2.1), in XDR.
type warmStart struct {
	path string
	reg  *registry
	log  *slog.Logger
}

// load registers what the file has. A file that is missing is empty; a broken
// one is left out.
func (w warmStart) load() {
	list, err := readRegistrations(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		w.log.Error("warm start: starting without the registrations of before", "err", err)
		return
	}
	n := 0
	for _, r := range list {
		if r.Prog != PMAP_PROG && w.reg.set(r, false) {
			n++
		}
	}
	w.log.Info("warm start", "file", w.path, "registrations", n)
}

// readRegistrations reads a warm start file, rpcbind's too.
func readRegistrations(path string) ([]Registration, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("portmap: warm start: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(f, maxWarmStart))
	}
	if err != nil {
		return nil, fmt.Errorf("portmap: warm start: %s: %w", path, err)
	}
	var list RpcblistPtr
	d := xdr.NewDecoder(b)
	if err := DecodeRpcblistPtr(d, &list); err != nil {
		return nil, fmt.Errorf("portmap: warm start: %s: %w", path, err)
	}
	if d.Len() > 0 {
		return nil, fmt.Errorf("portmap: warm start: %s: %d bytes after the list", path, d.Len())
	}
	return fromRpcblist(list), nil
}

// check tells early whether the file can be written.
func (w warmStart) check() error {
	f, err := os.CreateTemp(filepath.Dir(w.path), ".portmap-*")
	if err != nil {
		return fmt.Errorf("portmap: warm start: no file can be made beside %s: %w", w.path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// run writes the file after every change, not too often, and once more when ctx
// ends.
func (w warmStart) run(ctx context.Context) {
	failing := false
	save := func() {
		err := w.save()
		if err != nil && !failing {
			w.log.Error("warm start: registrations not saved", "err", err)
		}
		failing = err != nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			save()
			return
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			save()
			return
		case <-w.reg.changed:
			save()
			timer.Reset(saveInterval)
		}
	}
}

// save writes the file, all of it or nothing.
func (w warmStart) save() error {
	d := w.reg.dump()
	err := d.err
	if err == nil {
		err = writeAtomic(w.path, d.rpcbXDR)
	}
	if err == nil && filepath.Base(w.path) == filepath.Base(DefaultWarmStart) {
		err = writeAtomic(filepath.Join(filepath.Dir(w.path), pmapFile), d.pmapXDR)
	}
	if err != nil {
		return fmt.Errorf("portmap: warm start: %w", err)
	}
	return nil
}

// writeAtomic writes a file that others see whole, before or after.
func writeAtomic(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".portmap-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
