package portmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockPath is what rpcbind locks while it runs. One that finds it locked says
// so and ends; else it would take the unix socket's path from us, and C servers
// would register where nobody asks.
const lockPath = "/run/rpcbind.lock"

// lock keeps rpcbind away. nil, nil: this user may not.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o444)
	if err != nil {
		return nil, nil
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is locked", ErrInUse, path)
	}
	return nil, nil
}
