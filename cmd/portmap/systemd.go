package main

import (
	"fmt"
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
