package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"starfish/portmap"
)

// Who we become where root starts us: as Debian's rpcbind, rpcUser; nobody on
// a host that has no such user; daemonUser with -s.
const (
	rpcUser    = "_rpc"
	nobody     = "nobody"
	daemonUser = "daemon"
)

// account is a user to become.
type account struct {
	name     string
	uid, gid int
}

// account is who to become; nil to stay who we are.
func (o options) account() (*account, error) {
	name := o.user
	if o.asDaemon {
		name = daemonUser
	}
	if os.Geteuid() != 0 {
		if name == "" {
			return nil, nil
		}
		who, err := lookUp(name)
		if err == nil && who.uid == os.Geteuid() {
			return nil, nil
		}
		return nil, errors.Join(err, fmt.Errorf("--user %s: only root can become another user", name))
	}
	if name == "" {
		if who, err := lookUp(rpcUser); err == nil {
			return who, nil
		}
		name = nobody
	}
	who, err := lookUp(name)
	if err != nil || who.uid == 0 {
		return nil, err
	}
	return who, nil
}

// lookUp finds a user by name, or by a uid that has one.
func lookUp(name string) (*account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if _, numErr := strconv.ParseUint(name, 10, 31); numErr == nil {
			u, err = user.LookupId(name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--user %s: %w", name, err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("--user %s: %w", name, err)
	}
	return &account{u.Username, uid, gid}, nil
}

// prepare makes ready what only root can do, and has the portmapper become who
// when its sockets are open.
func (o options) prepare(cfg *portmap.Config, who account) (*keeper, error) {
	if o.warmStart != "" {
		if err := who.ownDir(filepath.Dir(o.warmStart)); err != nil {
			return nil, err
		}
	}
	var k *keeper
	if o.socket != "" {
		var err error
		if k, err = startKeeper(o.socket); err != nil {
			return nil, err
		}
		cfg.OpenSocket = k.open
	}
	log := cfg.Logger
	cfg.Bound = func() error {
		if err := who.become(); err != nil {
			return fmt.Errorf("portmap: become %s: %w (--user root stays root, where there is no right to become another)", who.name, err)
		}
		log.Info("gave up root's rights", "user", who.name, "uid", who.uid)
		return nil
	}
	return k, nil
}

// become gives up root's rights, for good and in all threads.
func (a account) become() error {
	if err := syscall.Setgroups([]int{a.gid}); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setgid(a.gid); err != nil {
		return fmt.Errorf("setgid: %w", err)
	}
	if err := syscall.Setuid(a.uid); err != nil {
		return fmt.Errorf("setuid: %w", err)
	}
	if syscall.Setuid(0) == nil {
		return errors.New("root's rights can be had back")
	}
	return nil
}

// ownDir makes a directory that is the user's. One that is there stays as it
// is, unless it is rpcbind's.
func (a account) ownDir(dir string) error {
	_, err := os.Stat(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil && (missing || dir == filepath.Dir(portmap.DefaultWarmStart)) {
		err = os.Chown(dir, a.uid, a.gid)
	}
	if err != nil {
		return fmt.Errorf("portmap: warm start: %w", err)
	}
	return nil
}
