package portmap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"starfish/rpc"
)

const (
	// DefaultPort is the portmapper's port: C clients ask no other.
	DefaultPort = 111
	// DefaultSocket is where Debian's rpcbind listens, and C servers register.
	DefaultSocket = "/run/rpcbind.sock"

	// shutdownGrace is how long calls in progress may take at the end.
	shutdownGrace = time.Second
)

// Config says where and how a Server serves. The zero value serves loopback, on
// port 111, without a unix socket.
type Config struct {
	// Listen are addresses beside loopback, which is always served; 0.0.0.0 and
	// :: are all of their family.
	Listen []netip.Addr
	// Port is 111 where it is 0, and any that is free where it is negative.
	Port int
	// SocketPath is the unix socket, by which a caller's uid is known; "" is none.
	SocketPath string
	// Inherited are sockets that were opened for us, of TCP, UDP and the unix
	// socket; what is missing of them is opened where that is possible.
	Inherited []*os.File
	// OpenSocket opens the unix socket at SocketPath, again where its file was
	// deleted, for a server that gives up the right to. nil: ListenUnix.
	OpenSocket func(context.Context) (net.Listener, error)
	// Bound is called when every socket is open, before the first call is read
	// and any file is opened: to give up privileges. nil: nothing.
	Bound func() error

	// Registrations are there from the start, with their owners.
	Registrations []Registration
	// WarmStart is the file that keeps registrations over a restart; "" is none.
	WarmStart string
	// Reap is how often it is looked whether the programs registered here still
	// have their sockets; the registrations of dead ones are dropped. 0: never.
	Reap time.Duration

	// Insecure lets every local caller register ports below 1024.
	Insecure bool
	// RemoteCalls passes calls on to local programs: CALLIT, BCAST and INDIRECT.
	RemoteCalls bool
	// Rate bounds the calls of one other host a second that are answered at length
	// or passed on. Look-ups may be a hundred times as many. 0: DefaultRate;
	// negative: none.
	Rate float64

	// LogCalls logs every call at slog.LevelInfo, else at slog.LevelDebug.
	LogCalls bool
	Metrics  Metrics      // nil: none
	Logger   *slog.Logger // nil: none
}

// Server is a portmapper: versions 2, 3 and 4 of program 100000.
type Server struct {
	cfg         Config
	reg         *registry
	stats       stats
	limiter     *limiter // of calls that are answered at length or passed on; nil: none
	lookups     *limiter // of all others; nil: none
	long        longAnswers
	forwards    chan struct{} // a token for each call that is passed on
	reserved    uint16        // source ports below it are root's
	calls       *slog.Logger
	callLevel   slog.Level
	socketCheck time.Duration
	ready       chan struct{}
	port        int
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
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	s := &Server{
		long: newLongAnswers(),
		cfg:  cfg, reg: newRegistry(), ready: make(chan struct{}),
		forwards: make(chan struct{}, MaxForwards), reserved: reservedSources(),
		calls: cfg.Logger, callLevel: slog.LevelDebug, socketCheck: socketCheck,
	}
	s.cfg.Logger = slog.New(newQuiet(cfg.Logger.Handler()))
	if cfg.LogCalls {
		s.callLevel = slog.LevelInfo
	}
	if cfg.Rate >= 0 {
		times := cmp.Or(cfg.Rate, DefaultRate) / DefaultRate
		s.limiter = newLimiter(times*DefaultRate, max(1, times*DefaultBurst))
		s.lookups = newLimiter(times*LookupRate, max(1, times*LookupRate))
	}
	return s, nil
}

// reservedSources is the port below which only root can call from: 1024, or
// less where the system says so.
func reservedSources() uint16 {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return ipportReserved
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 16)
	if err != nil {
		return ipportReserved
	}
	return min(ipportReserved, uint16(n))
}

// Ready is closed when every socket is open.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Port is the port that is served, once Ready is closed.
func (s *Server) Port() int { return s.port }

// Registrations is how many there are now, the portmapper's own included.
func (s *Server) Registrations() int { return s.reg.len() }

// Run serves until ctx ends, finishes the calls in progress, removes the
// socket file and returns nil. A Server runs once.
func (s *Server) Run(ctx context.Context) error {
	socks, file, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer socks.close()
	if file != nil {
		defer file.Close()
	}
	if s.cfg.SocketPath == DefaultSocket {
		locked, err := lock(lockPath)
		if err != nil {
			return err
		}
		defer locked.Close() // nil says that it is none
	}
	s.registerOwn(socks.netids, file != nil)
	if s.cfg.Bound != nil {
		if err := s.cfg.Bound(); err != nil {
			return err
		}
	}
	warm := warmStart{path: s.cfg.WarmStart, reg: s.reg, log: s.cfg.Logger}
	if warm.path != "" {
		if err := warm.check(); err != nil {
			return err
		}
		warm.load()
	}
	return s.serve(ctx, socks, file, warm)
}

// open opens all sockets.
func (s *Server) open(ctx context.Context) (*sockets, *SocketFile, error) {
	socks := &sockets{}
	var file *SocketFile
	if len(s.cfg.Inherited) > 0 {
		ln, err := socks.adopt(s.cfg.Inherited)
		if err != nil {
			return nil, nil, err
		}
		if ln != nil {
			s.cfg.SocketPath = ln.Addr().String()
			file = wrapSocket(ln, s.cfg.SocketPath)
		}
		socks.without = func(err error) {
			s.cfg.Logger.Warn("portmapper serves without a socket that it was not given", "err", err)
		}
	}
	var err error
	if len(socks.netids) == 0 && s.cfg.Port < 0 {
		socks, err = openSockets(ctx, s.cfg.Listen, s.cfg.Port)
	} else {
		if len(socks.netids) == 0 {
			socks.port = uint16(s.cfg.Port)
		}
		err = socks.openAll(ctx, s.cfg.Listen)
	}
	if err == nil && file == nil {
		if file, err = s.openSocket(ctx); err != nil {
			socks.close()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	s.port = int(socks.port)
	return socks, file, nil
}

// serve serves on open sockets until ctx ends.
func (s *Server) serve(ctx context.Context, socks *sockets, file *SocketFile, warm warmStart) error {
	calls := maxCallsPerConn
	if s.cfg.RemoteCalls {
		calls += MaxForwards
	}
	server := rpc.NewServer(rpc.ServerConfig{
		MaxRecord: MaxRecord, MaxReply: MaxReply, MaxConns: maxConns, MaxCallsPerConn: calls,
		IdleTimeout: idleTimeout, StallTimeout: stallTimeout, CacheTime: s.cacheTime(), Metrics: s.cfg.Metrics,
		Logger: slog.New(newQuiet(s.calls.Handler())), // with a bound of its own: its lines do not crowd out ours
	})
	s.register(server)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, 1)
	run := func(serve func() error) {
		wg.Go(func() {
			if err := serve(); err != nil {
				select {
				case failed <- err:
				default: // the first one counts
				}
			}
		})
	}
	for _, ln := range socks.tcp {
		run(func() error { return server.Serve(ln) })
	}
	for _, conn := range socks.udp {
		run(func() error { return server.ServePacket(conn) })
	}
	if file != nil {
		serveFile := func(f *SocketFile) {
			run(func() error {
				if err := server.Serve(f); !f.replaced.Load() {
					return err
				}
				return nil
			})
		}
		serveFile(file)
		wg.Go(func() { s.watchSocket(ctx, file, serveFile) })
	}
	if warm.path != "" {
		wg.Go(func() { warm.run(ctx) })
	}
	if s.cfg.Reap > 0 {
		reap := &reaper{reg: s.reg, log: s.cfg.Logger, interval: s.cfg.Reap, proc: "/proc"}
		wg.Go(func() { reap.run(ctx) })
	}
	close(s.ready)
	s.cfg.Logger.Info("portmapper serves", "port", s.port, "socket", file != nil)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	s.stop(server)
	wg.Wait()
	return err
}

// cacheTime is how long replies over UDP are kept for calls that are sent
// again: every call may run twice, but for those that are passed on.
func (s *Server) cacheTime() time.Duration {
	if s.cfg.RemoteCalls {
		return ForwardTimeout
	}
	return -1
}

func (s *Server) stop(server *rpc.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
	}
}

// registerOwn enters the portmapper itself, in the order in which rpcbind
// shows its own entries, and then what the Config brings.
func (s *Server) registerOwn(netids map[string]bool, socket bool) {
	own := func(netid, addr string, versions ...uint32) {
		for _, vers := range versions {
			s.reg.set(Registration{PMAP_PROG, vers, netid, addr, ownerSuperuser}, true)
		}
	}
	for _, netid := range []string{"tcp6", "udp6", "tcp", "udp"} {
		if !netids[netid] {
			continue
		}
		own(netid, WildcardUaddr(netid, uint16(s.port)), 4, 3)
		if protoOf(netid) != 0 {
			own(netid, WildcardUaddr(netid, uint16(s.port)), 2)
		}
	}
	if socket {
		own("local", s.cfg.SocketPath, 4, 3)
	}
	for _, r := range s.cfg.Registrations {
		if r.Prog != PMAP_PROG {
			s.reg.set(r, false)
		}
	}
}
