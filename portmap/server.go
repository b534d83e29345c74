package portmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"starfish/rpc"
)

const (
	// DefaultPort is the portmapper's port: C clients ask no other.
	DefaultPort = 111
	// DefaultSocket is where Debian's rpcbind listens, and C servers register.
	DefaultSocket = "/run/rpcbind.sock"

	// MaxRecord bounds a call over TCP and the unix socket.
	MaxRecord = 64 << 10
	// MaxDatagram bounds an answer over UDP, as libtirpc does.
	MaxDatagram = 8800

	// shutdownGrace is how long calls in progress may take at the end.
	shutdownGrace = time.Second
)

// Config says where a Server serves.
type Config struct {
	// Listen are addresses beside loopback, which is always served; 0.0.0.0 and
	// :: are all of their family.
	Listen []netip.Addr
	// Port is 111 where it is 0, and any that is free where it is negative.
	Port int
	// SocketPath is the unix socket, by which a caller's uid is known; "" is none.
	SocketPath string
	// Registrations are there from the start, with their owners.
	Registrations []Registration
	Logger        *slog.Logger // nil: none
}

// Server is a portmapper: versions 2, 3 and 4 of program 100000.
type Server struct {
	cfg   Config
	reg   *registry
	ready chan struct{}
	port  int
}

// New makes a Server; Run opens its sockets.
func New(cfg Config) (*Server, error) {
	var errs []error
	if cfg.Port > 65535 {
		errs = append(errs, fmt.Errorf("portmap: port %d is above 65535", cfg.Port))
	}
	for _, addr := range cfg.Listen {
		if !addr.IsValid() {
			errs = append(errs, errors.New("portmap: an address to listen on is missing"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Port == 0 {
		cfg.Port = DefaultPort
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, reg: newRegistry(), ready: make(chan struct{})}, nil
}

// Ready is closed when every socket is open.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Port is the port that is served, once Ready is closed.
func (s *Server) Port() int { return s.port }

// Run serves until ctx ends, finishes the calls in progress, removes the
// socket file and returns nil. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	socks, err := openSockets(ctx, s.cfg.Listen, s.cfg.Port)
	if err != nil {
		return err
	}
	defer socks.close()
	s.port = int(socks.port)
	streams := socks.tcp
	file, err := s.openSocket(ctx)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close()
		streams = append(streams[:len(streams):len(streams)], file)
	}
	s.registerOwn(socks.ipv6, file != nil)

	server := rpc.NewServer(rpc.ServerConfig{MaxRecord: MaxRecord, Logger: s.cfg.Logger})
	s.register(server)
	var wg sync.WaitGroup
	failed := make(chan error, len(streams)+len(socks.udp))
	for _, ln := range streams {
		wg.Go(func() { failed <- server.Serve(ln) })
	}
	for _, conn := range socks.udp {
		wg.Go(func() { failed <- server.ServePacket(conn) })
	}
	close(s.ready)
	s.cfg.Logger.Info("portmapper serves", "port", s.port, "socket", file != nil)
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	s.stop(server)
	wg.Wait()
	return err
}

func (s *Server) stop(server *rpc.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
	}
}

// openSocket opens the unix socket. Where this user may not, the portmapper
// serves without: C servers then register over TCP to ::1.
func (s *Server) openSocket(ctx context.Context) (net.Listener, error) {
	if s.cfg.SocketPath == "" {
		return nil, nil
	}
	file, err := openSocketFile(ctx, s.cfg.SocketPath)
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EROFS):
		s.cfg.Logger.Warn("portmapper serves without its unix socket", "err", err)
		return nil, nil
	}
	return nil, err
}

// registerOwn enters the portmapper itself, in the order in which rpcbind
// shows its own entries, and then what the Config brings.
func (s *Server) registerOwn(ipv6, socket bool) {
	own := func(netid, addr string, versions ...uint32) {
		for _, vers := range versions {
			s.reg.set(Registration{PMAP_PROG, vers, netid, addr, ownerSuperuser}, true)
		}
	}
	port := uint16(s.port)
	if ipv6 {
		own("tcp6", WildcardUaddr("tcp6", port), 4, 3)
		own("udp6", WildcardUaddr("udp6", port), 4, 3)
	}
	own("tcp", WildcardUaddr("tcp", port), 4, 3, 2)
	own("udp", WildcardUaddr("udp", port), 4, 3, 2)
	if socket {
		own("local", s.cfg.SocketPath, 4, 3)
	}
	for _, r := range s.cfg.Registrations {
		if r.Prog != PMAP_PROG {
			s.reg.set(r, false)
		}
	}
}
