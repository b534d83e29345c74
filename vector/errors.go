package vector

import "errors"

// Errors of this package; all that it returns wrap one of them, or an error of
// the file system.
var (
	ErrBitmap  = errors.New("vector: invalid bitmap")                            // bytes or words that are no set of 32-bit rows
	ErrCorrupt = errors.New("vector: corrupt store")                             // what is on disk is not what was written
	ErrFormat  = errors.New("vector: unknown store format")                      // written by another program or release
	ErrLocked  = errors.New("vector: store is in use by another process")        // one process a file
	ErrClosed  = errors.New("vector: store is closed")                           // Put or Delete after Close
	ErrClash   = errors.New("vector: two different contents under one revision") // a revision is never given twice
)
