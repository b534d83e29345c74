package fault

import (
	"context"
	"errors"
	"slices"
)

// rank orders the kinds by how much they tell who asked: dead machines before
// those that merely lack vectors.
var rank = []Kind{ErrUnavailable, ErrNotHeld, ErrFailed, ErrTooLarge, ErrDeadline}

// maxIDs is how many ids Join keeps; the rest is counted.
const maxIDs = 1000

// Join is the one error of a call whose parts failed, nil where none did: faults
// of the highest rank together, each machine once; without any fault the first
// other error, one that only says that the call was given up last of all.
func Join(errs []error) error {
	var sum *Error
	var other error
	at := len(rank)
	for _, err := range errs {
		if err == nil {
			continue
		}
		f := Of(err)
		if f == nil {
			if other == nil || errors.Is(other, context.Canceled) {
				other = err
			}
			continue
		}
		i := slices.Index(rank, f.Kind)
		if i < 0 {
			i = len(rank) - 1
		}
		switch {
		case i < at:
			first := *f
			first.Machines, first.IDs = nil, slices.Clone(f.IDs[:min(len(f.IDs), maxIDs)])
			sum, at = first.On(f.Machines...), i
		case i == at:
			sum.On(f.Machines...)
			sum.IDs = append(sum.IDs, f.IDs[:min(len(f.IDs), maxIDs-len(sum.IDs))]...)
			sum.Total += f.Total
		}
	}
	if sum == nil {
		return other
	}
	return sum
}
