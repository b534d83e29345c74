package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"starfish/xdr"
)

// ServerConfig has the bounds of a Server. A zero field is its default, which
// stands in limits.go.
type ServerConfig struct {
	MaxRecord       int           // bytes of one record
	MaxReply        int           // bytes of one reply; 0: MaxRecord
	MaxBytes        int           // of all records over 64 KiB that are being read or run, and again of all replies that are not taken; beyond them no more are read
	MaxConns        int           // stream connections; beyond them the one that is idle for longest is closed
	MaxCalls        int           // calls that run at once; beyond them no more are read
	MaxCallsPerConn int           // of one connection, or one UDP socket
	IdleTimeout     time.Duration // a connection without calls for so long is closed
	StallTimeout    time.Duration // a connection that stops inside a record, or takes no more of a reply, is closed

	// Over UDP a call that is sent again gets the reply it had, and does not run
	// again. CacheTime is how long; negative: not at all. Procedure 0 is not kept.
	CacheTime        time.Duration
	MaxCachedReplies int // beyond them the oldest is forgotten
	MaxCachedBytes   int // of these replies

	// Auth checks the credentials of a flavour in the place of what is built in:
	// AUTH_NONE, which anybody may say, and AUTH_SYS, which is decoded into Call.Sys.
	// All other flavours are denied, and so is one with a nil Authenticator.
	Auth map[AuthFlavor]Authenticator

	// TLS is RPC over TLS (RFC 9289) for all streams, as TLSMode says: TLSOptional
	// offers it, TLSRequired denies all other calls with AUTH_TOOWEAK, those over
	// UDP too, but for unix sockets. ClientAuth and ClientCAs of TLS say whether
	// callers need a certificate. Version 1.3 and the protocol "sunrpc" are set.
	TLSMode TLSMode
	TLS     *tls.Config

	// Access says who may call what. The first rule that matches a call decides; a
	// call that none matches is denied with AUTH_TOOWEAK. Without rules everybody
	// may call everything.
	Access []AccessRule

	Metrics Metrics      // nil: nobody counts
	Trace   TraceFunc    // nil: nobody follows calls; CallFromContext knows the call
	Logger  *slog.Logger // nil: slog.Default()
}

func (c *ServerConfig) setDefaults() {
	orDefault(&c.MaxRecord, DefaultMaxRecord)
	orDefault(&c.MaxReply, c.MaxRecord)
	orDefault(&c.MaxBytes, DefaultMaxBytes)
	c.MaxBytes = max(c.MaxBytes, c.MaxRecord) // or the longest would never come in
	orDefault(&c.MaxConns, DefaultMaxConns)
	orDefault(&c.MaxCalls, DefaultMaxCalls)
	orDefault(&c.MaxCallsPerConn, DefaultMaxCallsPerConn)
	orDefault(&c.IdleTimeout, DefaultIdleTimeout)
	orDefault(&c.StallTimeout, DefaultStallTimeout)
	if c.CacheTime == 0 {
		c.CacheTime = DefaultCacheTime
	}
	orDefault(&c.MaxCachedReplies, DefaultMaxCachedReplies)
	orDefault(&c.MaxCachedBytes, DefaultMaxCachedBytes)
	if c.TLS != nil {
		c.TLS = tlsConfig(c.TLS)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

// orDefault sets a field that is not positive to its default.
func orDefault[T int | time.Duration](field *T, def T) {
	if *field <= 0 {
		*field = def
	}
}

// Server answers calls over any number of listeners and UDP sockets. All its
// methods may be called concurrently.
type Server struct {
	cfg       ServerConfig
	log       *slog.Logger
	programs  atomic.Pointer[map[uint32]program] // replaced as a whole
	calls     chan struct{}                      // a slot for each call that runs
	ctx       context.Context                    // of all calls
	cancel    context.CancelFunc
	look      lookout
	cache     *replyCache
	records   ledger // of records over minGrow
	replies   ledger // of replies that are not written
	deniedLog logPace

	mu       sync.Mutex
	closing  bool
	lastShed time.Time
	doors    map[door]bool // what Serve and ServePacket read from
	conns    map[*streamConn]bool
	room     chan struct{}  // closed when a connection ends, where accept waits for that
	wg       sync.WaitGroup // doors and conns
}

// program is the versions of one program; it is not changed once published.
type program struct {
	low, high uint32
	versions  map[uint32]Handler
}

// door is a socket that work comes in by.
type door interface {
	drain() // take no more
	close() // now
}

// NewServer returns a server without programs.
func NewServer(cfg ServerConfig) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Logger,
		calls: make(chan struct{}, cfg.MaxCalls),
		cache: newReplyCache(&cfg),
		doors: make(map[door]bool),
		conns: make(map[*streamConn]bool),
	}
	s.records.max, s.replies.max = int64(cfg.MaxBytes), int64(cfg.MaxBytes)
	s.programs.Store(&map[uint32]program{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Register has h answer the calls to a version of a program, in the place of
// what did so before. Calls to other versions are answered PROG_MISMATCH with
// the lowest and the highest that are registered.
func (s *Server) Register(prog, vers uint32, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(*s.programs.Load())
	p := program{low: vers, high: vers, versions: map[uint32]Handler{vers: h}}
	if old, ok := all[prog]; ok {
		p = program{min(vers, old.low), max(vers, old.high), maps.Clone(old.versions)}
		p.versions[vers] = h
	}
	all[prog] = p
	s.programs.Store(&all)
}

// handler returns what answers c, or a *ReplyError.
func (s *Server) handler(c *Call) (Handler, error) {
	p, ok := (*s.programs.Load())[c.Prog]
	if !ok {
		return nil, ErrProgUnavail
	}
	h, ok := p.versions[c.Vers]
	if !ok {
		return nil, &ReplyError{AcceptStat: PROG_MISMATCH, Low: p.low, High: p.high}
	}
	return h, nil
}

// admit finds the handler of a call, of which err is what readCall said. The
// refusal is a *ReplyError to answer with.
func (s *Server) admit(ctx *callContext, err error) (h Handler, refusal error) {
	if err != nil {
		return nil, err
	}
	c := &ctx.call
	if s.tooWeak(c) {
		return nil, AuthError(AUTH_TOOWEAK)
	}
	if ctx.verf, err = s.authenticate(c); err != nil {
		return nil, err
	}
	if stat := s.access(c); stat != AUTH_OK {
		return nil, AuthError(stat)
	}
	return s.handler(c)
}

// answer runs one call, or refuses it, and appends the reply to reply[:markLen];
// nil where there is to be none.
func (s *Server) answer(ctx *callContext, h Handler, refusal error, d *xdr.Decoder, reply []byte) []byte {
	c := &ctx.call
	if refusal == nil {
		headLen := markLen + acceptedSize(ctx.verf)
		head := slices.Grow(reply[:0], headLen)[:headLen]
		reply, refusal = s.invoke(ctx, h, d, head)
		switch {
		case refusal != nil && c.Proc == 0 && errors.Is(refusal, ErrProcUnavail), refusal == nil && reply == nil:
			reply, refusal = head, nil
		case refusal != nil:
			reply = head
		case len(reply) < headLen:
			refusal = fmt.Errorf("the handler returned %d bytes that are not appended to reply", len(reply))
			reply = head
		case len(reply)-markLen > s.cfg.MaxReply:
			refusal = fmt.Errorf("%w: reply of %d bytes, at most %d", ErrTooLong, len(reply)-markLen, s.cfg.MaxReply)
			reply = head
		}
		if errors.Is(refusal, ErrNoReply) {
			return nil
		}
		if refusal == nil {
			putAccepted(reply[markLen:], c.XID, ctx.verf)
			return reply
		}
	}
	re := refusalFor(refusal)
	ctx.refused = re
	givenUp := ctx.Err() != nil && errors.Is(refusal, context.Canceled) // its caller is gone: nobody's fault
	if panicked := (*panicError)(nil); errors.As(refusal, &panicked) {
		panicked.log(s.log, c)
	} else if re.Stat == MSG_ACCEPTED && re.AcceptStat == SYSTEM_ERR && !givenUp {
		s.log.Warn("rpc: call failed", append([]any{"err", refusal}, c.logAttrs()...)...)
	} else if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.Debug("rpc: call refused", append([]any{"err", refusal}, c.logAttrs()...)...)
	}
	return appendRefusal(reply[:markLen], c.XID, ctx.verf, re)
}

// invoke calls the handler and makes a panic an error.
func (s *Server) invoke(ctx *callContext, h Handler, d *xdr.Decoder, head []byte) (reply []byte, err error) {
	var done func(error)
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, newPanicError(p)
		}
		if done != nil {
			done(err)
		}
	}()
	c := &ctx.call
	traced, done := s.cfg.Trace.start(ctx, c.Prog, c.Vers, c.Proc)
	return h.ServeRPC(traced, c, d, head)
}

// needsSlot reports whether a call counts for MaxCalls: NULL does not, so that
// a busy server still shows that it lives.
func needsSlot(ctx *callContext, refusal error) bool { return refusal == nil && ctx.call.Proc != 0 }

// acquire takes a slot for a call; false when the server closes first. If there
// is none, it calls wait before it waits.
func (s *Server) acquire(wait func()) bool {
	select {
	case s.calls <- struct{}{}:
		return true
	default:
	}
	wait()
	select {
	case s.calls <- struct{}{}:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *Server) release() { <-s.calls }

// enter notes a socket, so that Shutdown and Close reach it, until leave.
func (s *Server) enter(d door) error {
	if s.cfg.TLSMode != TLSOff && s.cfg.TLS == nil {
		return fmt.Errorf("rpc: serve: %w: ServerConfig.TLS is missing", ErrTLS)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return fmt.Errorf("rpc: serve: %w", ErrClosed)
	}
	s.doors[d] = true
	s.wg.Add(1)
	return nil
}

func (s *Server) leave(d door) {
	s.mu.Lock()
	delete(s.doors, d)
	s.mu.Unlock()
	s.wg.Done()
}

// Shutdown takes no more calls, waits until those that run are answered, and
// closes everything. When ctx ends first it closes at once, without waiting for
// the handlers, and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
		s.closeAll()
		return fmt.Errorf("rpc: shutdown: %w", ctx.Err())
	}
}

// Close closes everything now, ends the contexts of all calls, and returns when
// their handlers have: a handler cannot call it.
func (s *Server) Close() error {
	s.drain()
	s.closeAll()
	s.wg.Wait()
	return nil
}

func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for d := range s.doors {
		d.drain()
	}
	for c := range s.conns {
		c.drain()
	}
}

func (s *Server) closeAll() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.doors {
		d.close()
	}
	for c := range s.conns {
		c.close()
	}
}

// isTimeout reports whether a deadline ended a read or write.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
