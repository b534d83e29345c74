package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
)

// maxRaised bounds how often a write is begun anew because a slave has a newer
// revision: once, unless slaves come and go meanwhile.
const maxRaised = 3

// begin opens a write with a revision above in.Revision.
func (r *Replica) begin(ctx context.Context, in catalog.Intent) (catalog.Intent, error) {
	floor := in.Revision
	in, err := r.cfg.Intents.Begin(ctx, in)
	if err == nil && in.Revision <= floor {
		err = fmt.Errorf("replica: a slave has revision %d of vector %d, and the catalog is at %d only: is it an older copy?", floor, in.ID, in.Revision)
		err = errors.Join(err, r.cfg.Intents.Abort(ctx, in.ID, in.Revision))
	}
	return in, err
}

// newerError: the slave has a newer revision than the write, from before the
// catalog or from a newer copy of it. The write needs one above that.
type newerError struct{ revision uint64 }

func (e *newerError) Error() string { return fmt.Sprintf("it has revision %d already", e.revision) }

// newest is the highest revision of a *newerError; 0: there is none.
func newest(errs map[string]error) (revision uint64) {
	for _, err := range errs {
		var newer *newerError
		if errors.As(err, &newer) {
			revision = max(revision, newer.revision)
		}
	}
	return revision
}

// sendAll sends the write to all its holders at once and returns the errors by
// machine. Who has it on disk is confirmed in the catalog.
func (r *Replica) sendAll(ctx context.Context, in catalog.Intent, body peer.Rows) map[string]error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs = map[string]error{}
	)
	for _, h := range in.Holders {
		wg.Go(func() {
			if err := r.sendTo(ctx, h, in, body); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[h] = err
			}
		})
	}
	wg.Wait()
	return errs
}

// sendTo has one holder put the write on disk.
func (r *Replica) sendTo(ctx context.Context, addr string, in catalog.Intent, body peer.Rows) error {
	r.cfg.Inventory.Touch(addr, in.ID)
	call := r.cfg.Slaves.Store
	if in.Op == catalog.Delete {
		call = r.cfg.Slaves.Erase
	}
	has, err := r.change(ctx, addr, peer.Write{ID: in.ID, Revision: in.Revision, Rows: body}, call)
	switch f := fault.Of(err); {
	case f != nil:
		return fmt.Errorf("%s refused it: %v: %s", addr, f.Kind, f.Message)
	case err != nil:
		r.blameFor(addr, err)
		return err
	case has > in.Revision:
		return &newerError{has}
	case has < in.Revision:
		return fmt.Errorf("%s answered that it has revision %d after revision %d was written", addr, has, in.Revision)
	}
	r.cfg.Views.Confirm(in.ID, in.Revision, addr)
	r.cfg.Inventory.Arrived(addr, in.ID)
	return nil
}

// secretPatience is how long a refused change waits for the join of the slave.
const secretPatience = 2 * time.Second

// change has a slave change something. A slave that does not know us, since it or
// we were started anew, joins as soon as it has refused the change: it is asked
// again then, with the secret that it joined with.
func (r *Replica) change(ctx context.Context, addr string, w peer.Write, call func(context.Context, string, peer.Write) (uint64, error)) (revision uint64, err error) {
	for again := true; ; again = false {
		var learned <-chan struct{}
		w.Secret, learned = r.cfg.Health.Secret(addr)
		revision, err = call(ctx, addr, w)
		if f := fault.Of(err); f == nil || f.Kind != fault.ErrDenied || !again {
			return revision, err
		}
		patience := time.NewTimer(secretPatience)
		select {
		case <-learned:
		case <-patience.C:
		case <-ctx.Done():
		}
		patience.Stop()
	}
}

// blameFor marks the machine down where the error of a call to it says that it
// is dead or hangs.
func (r *Replica) blameFor(addr string, err error) {
	var dead *peer.FailedError
	if errors.As(err, &dead) {
		r.cfg.Health.Blame(addr, peer.Reason(err))
	}
}
