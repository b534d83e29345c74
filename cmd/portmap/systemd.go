package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// listenFiles are the sockets that systemd opened for us (sd_listen_fds): from
// descriptor 3 on, as many as LISTEN_FDS says. The programs that we start do not
// get them.
func listenFiles() ([]*os.File, error) {
	pid, fds := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if fds == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // meant for another process
	}
	n, err := strconv.ParseUint(fds, 10, 8)
	if err != nil {
		return nil, fmt.Errorf("portmap: LISTEN_FDS=%q: %w", fds, err)
	}
	const first = 3
	var files []*os.File
	for fd := first; fd < first+int(n); fd++ {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), fmt.Sprint("LISTEN_FDS ", fd)))
	}
	return files, nil
}

// notifier tells systemd how we are (sd_notify); nil tells nobody.
type notifier struct{ conn *net.UnixConn }

// openNotifier connects to the socket that NOTIFY_SOCKET names; "@" begins an
// abstract one.
func openNotifier(socket string) *notifier {
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		fmt.Fprintf(os.Stderr, "portmap: NOTIFY_SOCKET: %v\n", err)
		return nil
	}
	return &notifier{conn}
}

func (n *notifier) send(state string) {
	if n != nil {
		_, _ = n.conn.Write([]byte(state)) // who asked and does not listen misses nothing
	}
}

func (n *notifier) close() {
	if n != nil {
		n.conn.Close()
	}
}
