package rpc

import (
	"bytes"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// replyCache remembers the calls that came by UDP and their replies, so that a
// call that is sent again, because its reply was late or lost, gets the same
// bytes again and does not run twice. What is the same is the caller's address,
// the socket, the xid and a checksum of the whole call. The oldest reply makes
// room.
type replyCache struct {
	maxCalls, maxBytes int
	window             time.Duration // after a reply; negative: nothing is remembered
	seed               maphash.Seed

	mu     sync.Mutex
	calls  map[callID]*cachedCall
	oldest *cachedCall // of those that are answered, linked in that order
	newest *cachedCall
	size   int // bytes of their replies
}

type callID struct {
	socket *packetConn
	from   netip.AddrPort
	xid    uint32
	size   int
	sum    uint64
}

type cachedCall struct {
	id    callID
	reply []byte // nil while the call runs
	till  time.Time
	next  *cachedCall
}

func newReplyCache(cfg *ServerConfig) *replyCache {
	return &replyCache{
		maxCalls: cfg.MaxCachedReplies, maxBytes: cfg.MaxCachedBytes, window: cfg.CacheTime,
		seed: maphash.MakeSeed(), calls: make(map[callID]*cachedCall),
	}
}

// begin notes a call. It returns nil where it is known already, with the reply
// unless it still runs.
func (r *replyCache) begin(socket *packetConn, from netip.AddrPort, xid uint32, call []byte) (c *cachedCall, reply []byte) {
	id := callID{socket, from, xid, len(call), maphash.Bytes(r.seed, call)}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.oldest != nil && !now.Before(r.oldest.till) {
		r.drop()
	}
	if old := r.calls[id]; old != nil {
		return nil, old.reply
	}
	c = &cachedCall{id: id}
	r.calls[id] = c
	return c, nil
}

// end notes the reply of a call.
func (r *replyCache) end(c *cachedCall, reply []byte) {
	kept := bytes.Clone(reply)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.reply, c.till = kept, now.Add(r.window)
	if r.newest == nil {
		r.oldest = c
	} else {
		r.newest.next = c
	}
	r.newest = c
	r.size += len(c.reply)
	for r.oldest != nil && (len(r.calls) > r.maxCalls || r.size > r.maxBytes) {
		r.drop()
	}
}

// drop forgets the oldest reply; r.mu is held.
func (r *replyCache) drop() {
	c := r.oldest
	if r.oldest = c.next; r.oldest == nil {
		r.newest = nil
	}
	r.size -= len(c.reply)
	delete(r.calls, c.id)
}
