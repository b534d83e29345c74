package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"starfish/catalog"
	"starfish/peer"
	"starfish/rpc"
	"starfish/structs"
)

// maxRaised bounds how often a write is begun anew because a slave has a newer
// revision: once, unless slaves come and go meanwhile.
const maxRaised = 3

// begin opens a write with a revision above in.Revision.
func (m *Master) begin(ctx context.Context, in catalog.Intent) (catalog.Intent, error) {
	floor := in.Revision
	in, err := m.cat.Begin(ctx, in)
	if err == nil && in.Revision <= floor {
		err = fmt.Errorf("master: a slave has revision %d of vector %d, and the catalog is at %d only: is it an older copy?", floor, in.ID, in.Revision)
		err = errors.Join(err, m.cat.Abort(ctx, in.ID, in.Revision))
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
func (m *Master) sendAll(ctx context.Context, in catalog.Intent, body structs.RowBitmap) map[string]error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs = map[string]error{}
	)
	for _, h := range in.Holders {
		wg.Go(func() {
			if err := m.send(ctx, h, in, body); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[h] = err
			}
		})
	}
	wg.Wait()
	return errs
}

// send has one holder put the write on disk.
func (m *Master) send(ctx context.Context, addr string, in catalog.Intent, body structs.RowBitmap) error {
	m.mon.touch(addr, in.ID)
	res, err := m.change(ctx, addr, func(ctx context.Context, slave *structs.SlaveProgSlaveV2Client, secret structs.JoinSecret) (structs.RevisionResponse, error) {
		if in.Op == catalog.Delete {
			return slave.SlaveDelete(ctx, structs.EraseRequest{Id: in.ID, Revision: in.Revision, Secret: secret})
		}
		return slave.SlaveStore(ctx, structs.StoreRequest{Id: in.ID, Revision: in.Revision, Rows: body, Secret: secret})
	})
	switch {
	case err != nil:
		m.blameFor(addr, err)
		return err
	case res.Status != structs.QUERY_OK:
		return fmt.Errorf("%s refused it: %v: %s", addr, res.Status, res.Failure.Message)
	case res.Revision > in.Revision:
		return &newerError{res.Revision}
	case res.Revision < in.Revision:
		return fmt.Errorf("%s answered that it has revision %d after revision %d was written", addr, res.Revision, in.Revision)
	}
	m.cat.Confirm(in.ID, in.Revision, addr)
	m.mon.arrived(addr, in.ID)
	return nil
}

// secretPatience is how long a refused change waits for the join of the slave.
const secretPatience = 2 * time.Second

// change has a slave change something. A slave that does not know us, since it or
// we were started anew, joins as soon as it has refused the change: it is asked
// again then, with the secret that it joined with.
func (m *Master) change(ctx context.Context, addr string, call func(context.Context, *structs.SlaveProgSlaveV2Client, structs.JoinSecret) (structs.RevisionResponse, error)) (res structs.RevisionResponse, err error) {
	for again := true; ; again = false {
		secret, learned := m.mon.secret(addr)
		err = m.pool.Call(ctx, addr, func(ctx context.Context, c rpc.Caller) (err error) {
			res, err = call(ctx, structs.NewSlaveProgSlaveV2Client(c), secret)
			return err
		})
		if err != nil || res.Status != structs.QUERY_DENIED || !again {
			return res, err
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
func (m *Master) blameFor(addr string, err error) {
	var dead *peer.FailedError
	if errors.As(err, &dead) {
		m.mon.blame(addr, peer.Reason(err))
	}
}
