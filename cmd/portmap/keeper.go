package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"starfish/portmap"
)

// keeperTimeout bounds one request to the keeper.
const keeperTimeout = 5 * time.Second

// A keeper is a process that keeps root's rights for one thing, which the
// portmapper has no right to any more: to make the file of the unix socket,
// again when somebody deleted it, and to remove it at the end. It hears nothing
// but one byte from the portmapper, and ends with it.
type keeper struct {
	mu   sync.Mutex
	conn *net.UnixConn
	cmd  *exec.Cmd
}

// keeperName is the hidden command that is the keeper.
const keeperName = "keep-socket"

// startKeeper starts the keeper of the socket at path.
func startKeeper(path string) (*keeper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("portmap: keeper of the socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "portmap")
	defer theirs.Close()
	defer ours.Close() // FileConn has a duplicate
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("portmap: keeper of the socket: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", keeperName, path)
	cmd.Args[0] = "portmap"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("portmap: keeper of the socket: %w", err)
	}
	return &keeper{conn: conn.(*net.UnixConn), cmd: cmd}, nil
}

// close ends the keeper, which removes the file.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.conn.Close()
	_ = k.cmd.Wait() // it has nothing to say that it did not say on standard error
}

// Answers of the keeper: what kind of error, and its text.
const (
	answerOpen       = 'o' // with the socket
	answerInUse      = 'u'
	answerPermission = 'p'
	answerMissing    = 'm'
	answerError      = 'e'
)

// open has the keeper open the socket.
func (k *keeper) open(ctx context.Context) (net.Listener, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	text, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	err := k.conn.SetDeadline(deadline)
	if err == nil {
		_, err = k.conn.Write([]byte{answerOpen})
	}
	var n, oobn int
	if err == nil {
		n, oobn, _, _, err = k.conn.ReadMsgUnix(text, oob)
	}
	if err == nil && n == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return nil, fmt.Errorf("keeper of the socket: %w", err)
	}
	if text[0] == answerOpen {
		return listenerOf(oob[:oobn])
	}
	kind := map[byte]error{answerInUse: portmap.ErrInUse, answerPermission: fs.ErrPermission, answerMissing: fs.ErrNotExist}[text[0]]
	if kind == nil {
		return nil, errors.New(string(text[1:n]))
	}
	return nil, fmt.Errorf("%w: %s", kind, text[1:n])
}

// listenerOf is the socket in a control message.
func listenerOf(oob []byte) (net.Listener, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("keeper of the socket: no socket came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("keeper of the socket: no socket came: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close() // FileListener has a duplicate
	return net.FileListener(f)
}

// keeperCommand is the keeper's side.
func keeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    keeperName + " PATH",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE) // the portmapper's end is ours
			const fromParent = 3
			f := os.NewFile(fromParent, "portmap")
			conn, err := net.FileConn(f)
			if err != nil {
				return fmt.Errorf("portmap starts this by itself: %w", err)
			}
			f.Close()
			uc, ok := conn.(*net.UnixConn)
			if !ok {
				return errors.New("portmap starts this by itself")
			}
			return keepSocket(uc, args[0])
		},
	}
}

// keepSocket serves the portmapper until it ends, then removes the file.
func keepSocket(conn *net.UnixConn, path string) error {
	var last *portmap.SocketFile
	defer func() {
		if last != nil {
			last.Close()
		}
	}()
	for {
		n, err := conn.Read(make([]byte, 1))
		if err != nil || n == 0 {
			return nil // the portmapper has ended
		}
		ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
		file, err := portmap.ListenUnix(ctx, path)
		cancel()
		if err == nil {
			if err = hand(conn, file); err == nil {
				last = file
			}
		}
		if err == nil {
			continue
		}
		kind := byte(answerError)
		switch {
		case errors.Is(err, portmap.ErrInUse):
			kind = answerInUse
		case errors.Is(err, fs.ErrPermission):
			kind = answerPermission
		case errors.Is(err, fs.ErrNotExist):
			kind = answerMissing
		}
		if _, err := conn.Write(append([]byte{kind}, strings.TrimPrefix(err.Error(), "portmap: ")...)); err != nil {
			return nil
		}
	}
}

// hand gives a socket to the portmapper, and keeps no duplicate: what the
// portmapper does not accept nobody does.
func hand(conn *net.UnixConn, file *portmap.SocketFile) error {
	f, err := file.Listener.(*net.UnixListener).File()
	if err == nil {
		_, _, err = conn.WriteMsgUnix([]byte{answerOpen}, unix.UnixRights(int(f.Fd())), nil)
		f.Close()
	}
	return errors.Join(err, file.Listener.Close())
}
