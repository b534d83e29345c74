// Package fold is the loop of the query engine: ranges of vectors, OR inside a
// range and AND across ranges, straight from portable Roaring bytes, container
// by container. No bitmap object is built, and nothing is encoded on the way.
//
//	Gather.Add       a vector's containers are filed under range and key
//	Gather.AddFrame  so are the containers that another machine's leg answered
//	Gather.Count     for each key: OR each range, AND the ranges, count
//	Gather.Append    the same, and the rows are written as portable Roaring
//	Gather.Word      the same, for version 1: stops at a row above 63
//	Gather.Leg       no AND: each range's containers of each key, for Frame
//
// A container is the part of a vector that has one key, the upper 16 bits of
// its rows. It is an array, a bitmap or a list of runs (package vector draws the
// bytes). While a key is folded an accumulator of 8 KiB holds it; where a key
// has few rows, what is done is in proportion to the rows and not to 8 KiB.
//
// Bytes may come from anywhere. Parse and ParseFrame check the structure:
// lengths, the order of keys, counts against bytes, the runs. What they do not
// look at is the order inside an array and the number of bits in a bitmap: with
// a wrong one the result is some set, a valid one, and never a crash.
package fold

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
)

// ErrBytes says that bytes are no portable Roaring stream, or no frame.
var ErrBytes = errors.New("fold: invalid bytes")

// Keys is the number of keys: rows go up to 2^32-1 and a key is for 65,536 rows.
const Keys = 1 << 16

var le = binary.LittleEndian

// Count is the number of rows that are in all ranges and have a key in
// [first, end). Its error is that of ctx.
func (g *Gather) Count(ctx context.Context, first, end int) (uint64, error) {
	g.align(first, end, math.MaxInt, true)
	if err := g.run(ctx, taskCount); err != nil {
		return 0, err
	}
	var sum uint64
	for _, w := range g.workers {
		sum += w.count
	}
	return sum, nil
}

// Append appends, as a portable Roaring stream, the rows that are in all ranges
// and have a key in [first, end). Each container is in its smallest form, so
// equal sets have equal bytes. Its error is that of ctx; then dst is returned.
func (g *Gather) Append(ctx context.Context, dst []byte, first, end int) ([]byte, error) {
	g.align(first, end, math.MaxInt, true)
	if err := g.run(ctx, taskRows); err != nil {
		return dst, err
	}
	return appendStream(dst, g.outs), nil
}

// Word is the rows that are in all ranges as one word, bit i for row i. It is
// false as soon as there is a row above 63. Its error is that of ctx.
func (g *Gather) Word(ctx context.Context) (uint64, bool, error) {
	g.align(0, Keys, math.MaxInt, true)
	if err := g.run(ctx, taskWord); err != nil {
		return 0, false, err
	}
	w := g.worker(0)
	return w.word, !w.above, nil
}
