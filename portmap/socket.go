package portmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// socketCheck is how often it is looked whether the socket file is still there.
const socketCheck = time.Second

// A SocketFile is the unix socket and the file by which it is found.
type SocketFile struct {
	net.Listener
	path     string
	info     fs.FileInfo // of the file
	keep     bool        // Close leaves the file: another process removes it
	replaced atomic.Bool // another one has taken its place
}

// ListenUnix listens on path with mode 0666. A file that nobody listens on any
// more is replaced; a socket that answers is ErrInUse. Close removes the file.
func ListenUnix(ctx context.Context, path string) (*SocketFile, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("portmap: listen: %w", err)
	}
	// Ours to remove, and only while it is still ours: see Close.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &SocketFile{Listener: ln, path: path}
	s.info, err = os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("portmap: socket file: %w", err)
	}
	return s, nil
}

// Close stops listening and removes the file, unless another process has put
// its own in its place.
func (s *SocketFile) Close() error {
	if ours, _ := s.there(); ours && !s.keep && !s.replaced.Load() {
		os.Remove(s.path)
	}
	return s.Listener.Close()
}

// there tells whether the file is ours, and whether there is any.
func (s *SocketFile) there() (ours, any bool) {
	now, err := os.Lstat(s.path)
	if err != nil {
		return false, !errors.Is(err, fs.ErrNotExist)
	}
	// A file that was made later may have got the number of ours.
	return s.info != nil && os.SameFile(now, s.info) && now.ModTime().Equal(s.info.ModTime()), true
}

// openSocket opens the unix socket at the path of the Config. nil, nil: where
// this user may not, the portmapper serves without, and C servers register over
// TCP to ::1.
func (s *Server) openSocket(ctx context.Context) (*SocketFile, error) {
	if s.cfg.SocketPath == "" {
		return nil, nil
	}
	file, err := s.makeSocket(ctx)
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EROFS):
		s.cfg.Logger.Warn("portmapper serves without its unix socket", "err", err)
		return nil, nil
	}
	return nil, err
}

// makeSocket makes the socket and its file.
func (s *Server) makeSocket(ctx context.Context) (*SocketFile, error) {
	if s.cfg.OpenSocket == nil {
		return ListenUnix(ctx, s.cfg.SocketPath)
	}
	ln, err := s.cfg.OpenSocket(ctx)
	if err != nil {
		return nil, fmt.Errorf("portmap: %w", err)
	}
	return wrapSocket(ln, s.cfg.SocketPath), nil
}

// wrapSocket is a listener that another process opened, and whose file is its
// business.
func wrapSocket(ln net.Listener, path string) *SocketFile {
	file := &SocketFile{Listener: ln, path: path, keep: true}
	file.info, _ = os.Lstat(path)
	return file
}

// watchSocket makes the socket again whenever its file was deleted, until ctx
// ends, and has serve serve it. Another process's file it leaves alone.
func (s *Server) watchSocket(ctx context.Context, file *SocketFile, serve func(*SocketFile)) {
	ticker := time.NewTicker(s.socketCheck)
	defer ticker.Stop()
	told := ""
	tell := func(text string, args ...any) {
		if told != text {
			s.cfg.Logger.Warn(text, args...)
		}
		told = text
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		ours, any := file.there()
		if ours {
			continue
		}
		if any {
			tell("another process has put its file in the place of our unix socket", "path", file.path)
			continue
		}
		again, err := s.makeSocket(ctx)
		if err != nil {
			tell("our unix socket was deleted, and cannot be made again: C programs cannot register", "path", file.path, "err", err)
			continue
		}
		s.cfg.Logger.Info("our unix socket was deleted; made again", "path", file.path)
		told = ""
		file.replaced.Store(true)
		file.Listener.Close()
		file = again
		serve(file)
	}
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("portmap: socket file: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("portmap: %s is there and is no socket", path)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("portmap: socket file: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("portmap: stale socket file: %w", err)
	}
	return nil
}
