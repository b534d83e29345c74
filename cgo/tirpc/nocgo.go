//go:build !cgo

// Package tirpc is the C side of structs.x for tests and benchmarks. This build
// has no cgo: nothing works.
package tirpc

import (
	"errors"
	"time"
)

// Available tells whether the binding was built.
const Available = false

// ErrXDR is what every function returns in a build without cgo.
var ErrXDR = errors.New("tirpc: built without cgo")

// ErrTooMany is never returned in a build without cgo.
var ErrTooMany = errors.New("tirpc: more nodes than the C routines have stack for")

// EncodeList fails in a build without cgo.
func EncodeList([]Node, uint64) ([]byte, error) { return nil, ErrXDR }

// DecodeList fails in a build without cgo.
func DecodeList([]byte) ([]Node, uint64, error) { return nil, 0, ErrXDR }

// TimeEncode fails in a build without cgo.
func TimeEncode(nodes, rounds int) (time.Duration, error) { return 0, ErrXDR }

// TimeDecode fails in a build without cgo.
func TimeDecode(nodes, rounds int) (time.Duration, error) { return 0, ErrXDR }
