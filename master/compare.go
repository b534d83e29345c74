package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"starfish/catalog"
	"starfish/fault"
	"starfish/peer"
	"starfish/rows"
	"starfish/structs"
	"starfish/vector"
)

// comparison is what a C handler has in vectors that others hold.
type comparison struct {
	mu     sync.Mutex
	holder map[uint64]string // one of each id
	differ []uint64
	lacks  []uint64 // not there
	unread []uint64 // none of the others can be asked
	says   string   // of one that it lacks
	why    string   // of one that is unread
}

// compare asks the C handler at addr for each of the vectors, and those that hold
// them, unless blind. Locks on the ids keep them as they are. The error is that of
// a handler that does not answer.
func (m *Master) compare(ctx context.Context, addr string, shared []catalog.Member, blind bool) (*comparison, error) {
	found := &comparison{holder: map[uint64]string{}}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16) // reads of the others; the handler has one call at a time
	for _, mem := range shared {
		found.holder[mem.ID] = mem.Holders[max(0, slices.IndexFunc(mem.Holders, func(h string) bool { return h != addr }))]
		g.Go(func() error {
			var want *vector.Bitmap
			if !blind {
				var err error
				if want, err = m.content(ctx, addr, mem); ctx.Err() != nil {
					return context.Cause(ctx)
				} else if err != nil {
					found.add(&found.unread, mem.ID, &found.why, peer.Reason(err))
					return nil
				}
			}
			word, err := m.pool.Word(ctx, addr, mem.ID, m.handlerPatience())
			switch lacks := (*peer.LacksError)(nil); {
			case errors.As(err, &lacks):
				found.add(&found.lacks, mem.ID, &found.says, err.Error())
			case err != nil:
				return err
			case !blind && !vector.FromWord(word).Equal(want):
				found.add(&found.differ, mem.ID, nil, "")
			}
			return nil
		})
	}
	return found, g.Wait()
}

// add notes the id, and what is to be told of the first one.
func (c *comparison) add(list *[]uint64, id uint64, told *string, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*list) == 0 && told != nil {
		*told = why
	}
	*list = append(*list, id)
}

// content is what the catalog's holders of a vector other than addr have in it.
func (m *Master) content(ctx context.Context, addr string, mem catalog.Member) (*vector.Bitmap, error) {
	m.health.AwaitVerdicts(ctx, mem.Holders)
	written, err := m.cat.Revisions([]uint64{mem.ID})
	if err != nil {
		return nil, err
	}
	snap := m.cat.Snapshot()
	var ours []string
	err = fmt.Errorf("none of its holders serves it")
	for _, h := range mem.Holders {
		s, _ := snap.Slave(h)
		switch {
		case h == addr || s.State != catalog.Serving || snap.IsMissing(h, mem.ID):
		case s.Protocol == 2:
			ours = append(ours, h)
		default:
			var word uint64
			if word, err = m.pool.Word(ctx, h, mem.ID, m.handlerPatience()); err == nil {
				return vector.FromWord(word), nil
			}
		}
	}
	if len(ours) == 0 {
		return nil, err
	}
	v, err := m.writes.Fetch(ctx, mem.ID, ours, func(v peer.Stored) bool { return !v.Deleted && v.Revision > 0 && v.Revision >= written[0] })
	if err != nil {
		return nil, err
	}
	return rows.Decode((*structs.RowBitmap)(&v.Rows))
}

// verdict is nil where the handler may hold all of it.
func (c *comparison) verdict(addr string) error {
	refuse := func(ids []uint64, format string, args ...any) error {
		slices.Sort(ids)
		return &claimError{ids, fmt.Sprintf("%s known already, the first on %s, ", isAre(ids), c.holder[ids[0]]) + fmt.Sprintf(format, args...)}
	}
	const orElse = "leave such ids out of --ids, or take them over with --replace: then the other copies are deleted"
	switch {
	case len(c.lacks) > 0:
		return refuse(c.lacks, "and it does not hold them (%s): nothing was changed; leave them out of --ids", c.says)
	case len(c.differ) > 0:
		return refuse(c.differ, "with other rows than here: nothing was changed; %s", orElse)
	case len(c.unread) > 0:
		return refuse(c.unread, "and cannot be compared (%s): nothing was changed; try again when a holder serves, %s", c.why, orElse)
	}
	return nil
}

func isAre(ids []uint64) string {
	list := fault.Vectors(ids, uint64(len(ids)))
	if len(ids) == 1 {
		return list + " is"
	}
	return list + " are"
}
