package store

import (
	"errors"

	"starfish/disk"
)

// Errors of this package; all that it returns wrap one of them, or an error of
// the file system.
var (
	ErrCorrupt = disk.ErrDamaged                                                // what is on disk is not what was written
	ErrFormat  = errors.New("store: unknown format")                            // written by another program or release
	ErrLocked  = disk.ErrLocked                                                 // one process a file
	ErrClosed  = disk.ErrClosed                                                 // Put or Delete after Close
	ErrClash   = errors.New("store: two different contents under one revision") // a revision is never given twice
)
