package vector

import "errors"

// ErrBitmap: bytes or words that are no set of 32-bit rows. Every error of this
// package wraps it.
var ErrBitmap = errors.New("vector: invalid bitmap")
