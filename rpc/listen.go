package rpc

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// listener is one net.Listener while Serve accepts from it.
type listener struct {
	net.Listener
	closed chan struct{}
	once   sync.Once
}

func (l *listener) drain() { l.close() }

func (l *listener) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.Listener.Close() // whatever is wrong with it, Accept returns
	})
}

// Serve answers the calls of the connections that l accepts, and closes l. It
// returns nil when the server was shut down or closed, else what is wrong with
// l. The connections are served on when l fails.
func (s *Server) Serve(l net.Listener) error {
	ln := &listener{Listener: l, closed: make(chan struct{})}
	defer ln.close()
	if err := s.enter(ln); err != nil {
		return err
	}
	defer s.leave(ln)
	s.log.Info("rpc: serving", "network", l.Addr().Network(), "addr", l.Addr())
	var backoff time.Duration
	for {
		c, err := l.Accept()
		if err == nil {
			backoff = 0
			s.serveConn(c, ln.closed)
			continue
		}
		select {
		case <-ln.closed:
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("rpc: accept: %w", err)
		}
		// Out of descriptors, most likely: make room, and do not spin.
		backoff = min(max(2*backoff, minAcceptBackoff), maxAcceptBackoff)
		s.log.Warn("rpc: accept failed", "err", err, "again in", backoff)
		s.evict()
		select {
		case <-time.After(backoff):
		case <-ln.closed:
			return nil
		}
	}
}

// serveConn starts serving c. While there are MaxConns connections it closes
// the one that is idle for longest, or waits for one to end.
func (s *Server) serveConn(nc net.Conn, stop <-chan struct{}) {
	c := newStreamConn(s, nc)
	for {
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			c.close()
			return
		}
		if len(s.conns) < s.cfg.MaxConns {
			s.conns[c] = true
			s.wg.Add(1)
			s.mu.Unlock()
			s.cfg.Metrics.Connected(c.call.Network, 1)
			c.crew.start()
			return
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		s.evict()
		select {
		case <-room:
		case <-time.After(maxAcceptBackoff): // one may be idle by now
		case <-stop:
		}
	}
}

// forget undoes what serveConn noted.
func (s *Server) forget(c *streamConn) {
	s.mu.Lock()
	delete(s.conns, c)
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	s.mu.Unlock()
	s.cfg.Metrics.Connected(c.call.Network, -1)
	s.wg.Done()
}

// evict closes the connection that is idle for longest, if one is.
func (s *Server) evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *streamConn
	for c := range s.conns {
		if c.crew.busy() == 0 && (oldest == nil || c.lastUsed.Load() < oldest.lastUsed.Load()) {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.drop(DropEvicted, errors.New("others need the room"))
	}
}
