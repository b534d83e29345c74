package portmap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"starfish/rpc"
)

// Defaults of an Auto.
const (
	// FallbackPort is served where there is no right to bind 111. Our own
	// clients try it, C clients do not.
	FallbackPort = 10111
	// DefaultWatchInterval is how often the portmapper in use is asked.
	DefaultWatchInterval = time.Second
	watchTimeout         = time.Second
)

// AutoConfig says what an Auto serves where nobody else does.
type AutoConfig struct {
	Listen       []netip.Addr  // as Config.Listen
	Port         int           // 0: DefaultPort
	FallbackPort int           // 0: FallbackPort
	SocketPath   string        // "": DefaultSocket; "none": none
	Interval     time.Duration // between two looks at the portmapper in use; 0: DefaultWatchInterval
	Changed      func(Status)  // called after each change of the Status; may be nil
	Logger       *slog.Logger  // nil: none
}

// Status is which portmapper the host has.
type Status struct {
	Port    int    // 0 where there is none
	Own     bool   // served by this Auto
	Message string // what the user is to know and can do; "" where all is well
}

// String is the status as a start line shows it.
func (s Status) String() string {
	text := "no portmapper"
	if s.Port != 0 {
		whose := "in use, of another process"
		if s.Own {
			whose = "own"
		}
		text = fmt.Sprintf("portmapper on port %d (%s)", s.Port, whose)
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

// Auto sees to it that the host has a portmapper: it uses the one that answers
// on port 111, else it serves one itself, and takes over when the one in use
// goes away, with the registrations that it had. Without the right to bind 111
// it serves FallbackPort.
type Auto struct {
	cfg   AutoConfig
	ready chan struct{}

	mu     sync.Mutex
	status Status

	own   *running       // the server that we run, nil for none
	known []Registration // of the portmapper that was last in use
}

// running is a Server that serves.
type running struct {
	srv    *Server
	port   int
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed
}

// NewAuto makes an Auto; Run starts it.
func NewAuto(cfg AutoConfig) *Auto {
	if cfg.Port == 0 {
		cfg.Port = DefaultPort
	}
	if cfg.FallbackPort == 0 {
		cfg.FallbackPort = FallbackPort
	}
	switch cfg.SocketPath {
	case "":
		cfg.SocketPath = DefaultSocket
	case "none":
		cfg.SocketPath = ""
	}
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultWatchInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Auto{cfg: cfg, ready: make(chan struct{})}
}

// Ready is closed when it is decided which portmapper is in use; Status says
// which, or that there is none.
func (a *Auto) Ready() <-chan struct{} { return a.ready }

// Status is the portmapper in use now.
func (a *Auto) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Run watches, and serves where needed, until ctx ends; it then returns nil.
func (a *Auto) Run(ctx context.Context) error {
	defer a.stop()
	ticker := time.NewTicker(a.cfg.Interval)
	defer ticker.Stop()
	for first := true; ; first = false {
		status := a.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.setStatus(status)
		if first {
			close(a.ready)
		}
		var ended chan struct{}
		if a.own != nil {
			ended = a.own.done
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			a.cfg.Logger.Error("our portmapper ended", "err", a.own.err)
			a.stop()
		case <-ticker.C:
		}
	}
}

// look decides once: our own on the right port stays; else who answers is
// used; else we serve.
func (a *Auto) look(ctx context.Context) Status {
	main := a.cfg.Port
	if a.serves(main) {
		return Status{Port: main, Own: true}
	}
	if list, err := a.ask(ctx, main); err == nil {
		a.stop()
		a.known = list
		return Status{Port: main}
	}
	mainErr := a.start(ctx, main)
	if mainErr == nil {
		return Status{Port: main, Own: true}
	}
	message := a.advice(mainErr)
	if a.serves(a.cfg.FallbackPort) {
		return Status{a.cfg.FallbackPort, true, message}
	}
	if _, err := a.ask(ctx, a.cfg.FallbackPort); err == nil {
		return Status{a.cfg.FallbackPort, false, message}
	}
	if err := a.start(ctx, a.cfg.FallbackPort); err != nil {
		return Status{Message: errors.Join(mainErr, err).Error()}
	}
	return Status{a.cfg.FallbackPort, true, message}
}

// advice tells how to get the main port.
func (a *Auto) advice(err error) string {
	why := err.Error()
	if errors.Is(err, os.ErrPermission) {
		why = fmt.Sprintf("no right to bind port %d", a.cfg.Port)
	}
	binary, exeErr := os.Executable()
	if exeErr != nil {
		binary = "this program"
	}
	return fmt.Sprintf("%s; C clients (clnt_create) need port %d: install and start the rpcbind package, or start as root (sudo), or `sudo setcap cap_net_bind_service=+ep %s`",
		why, a.cfg.Port, binary)
}

func (a *Auto) serves(port int) bool { return a.own != nil && a.own.port == port }

// ask lists the registrations of the portmapper that answers on port.
func (a *Auto) ask(ctx context.Context, port int) ([]Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	c, err := Connect(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), rpc.ClientConfig{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Null(ctx); err != nil {
		return nil, err
	}
	list, err := c.Dump(ctx)
	if err != nil {
		return a.known, nil // it answers, so it is in use
	}
	return list, nil
}

// start serves port. A server of ours on another port ends first, so that the
// socket is free, but only where port can be had.
func (a *Auto) start(ctx context.Context, port int) error {
	if a.own != nil {
		socks, err := openSockets(ctx, a.cfg.Listen, port)
		if err != nil {
			return err
		}
		socks.close()
		a.stop()
	}
	err := a.run(ctx, port, a.cfg.SocketPath)
	if errors.Is(err, ErrInUse) {
		a.cfg.Logger.Warn("portmapper serves without its unix socket", "err", err)
		err = a.run(ctx, port, "")
	}
	return err
}

func (a *Auto) run(ctx context.Context, port int, socket string) error {
	srv, err := New(Config{Listen: a.cfg.Listen, Port: port, SocketPath: socket, Registrations: a.known, Logger: a.cfg.Logger})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{srv: srv, port: port, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = srv.Run(ctx)
	}()
	select {
	case <-srv.Ready():
		a.own = r
		return nil
	case <-r.done:
		cancel()
		return r.err
	}
}

// stop ends our own server and waits for it.
func (a *Auto) stop() {
	if a.own == nil {
		return
	}
	a.own.cancel()
	<-a.own.done
	a.known = a.own.srv.reg.all()
	a.own = nil
}

func (a *Auto) setStatus(status Status) {
	a.mu.Lock()
	changed := a.status != status
	a.status = status
	a.mu.Unlock()
	if !changed {
		return
	}
	a.cfg.Logger.Info("portmapper", "port", status.Port, "own", status.Own, "message", status.Message)
	if a.cfg.Changed != nil {
		a.cfg.Changed(status)
	}
}
