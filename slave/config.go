package slave

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"starfish/machine"
	"starfish/node"
	"starfish/peer"
	"starfish/portmap"
	"starfish/rpc"
	"starfish/structs"
)

// Bounds and defaults of a slave.
const (
	DefaultPort       = 20490
	DefaultAddr       = "127.0.0.1"
	DefaultHopTimeout = peer.DefaultHopTimeout
	DefaultDeadline   = 20 * time.Second // of a call that brings none

	maxUDPAnswer    = 8800                    // bytes; libtirpc refuses more over UDP
	maxStaticNodes  = 10_000                  // list nodes sent to a C handler, which decodes them on its stack
	maxRanges       = 64                      // ranges of one call that run at a time
	maxCoordinated  = rpc.DefaultMaxCalls / 2 // COORDINATE calls at a time: slots are left for the HANDLE_QUERY calls that all coordinators wait for
	defaultItems    = 4096                    // of an inventory page that asks for no number
	maxUDPItems     = 180                     // of one that goes over UDP
	joinInterval    = 3 * time.Second         // between two calls of MASTER_JOIN
	joinTimeout     = 5 * time.Second         // of one
	refreshInterval = 250 * time.Millisecond  // between two that a list with an unknown machine causes
	resolveTimeout  = time.Second             // of a host name in a list
	readyPatience   = 3 * time.Second         // for the portmapper and the master, before the slave is ready without them
)

// AnyPort as Config.Port listens on a free port of the system's choice.
const AnyPort = node.AnyPort

// Config is how a slave runs. The zero value but for Data is the default.
type Config struct {
	Addr     string // the machine_addr by which others call it, and where it listens; "": 127.0.0.1
	Port     int    // 0: 20490; AnyPort: a free one
	Master   string // host of the master; "": serves its store and calls nobody
	Data     string // directory of the store; must be set
	Priority *int32 // nil: unset

	Listen       []netip.Addr   // addresses to listen on besides Addr
	Allow        []netip.Prefix // who may change vectors, besides loopback and the master
	AllowMachine []netip.Prefix // machines that a list may name, besides those of the cluster

	HopTimeout   time.Duration   // how long another machine may stay silent; 0: 1 s
	JoinInterval time.Duration   // between two calls to the master; 0: 3 s
	DrainTimeout time.Duration   // for calls in flight at the end of Run; 0: 5 s
	Portmap      node.Portmapper // a slave registers with the host's portmapper, and never serves one
	Network      node.Network    // where the slave listens; nil: node.System

	Logger *slog.Logger // nil: slog.Default()

	// Dial connects to SLAVE_PROG of a machine, DialMaster to MASTER_PROG;
	// nil: through the machine's portmapper.
	Dial       func(ctx context.Context, machine string, vers uint32) (*rpc.Client, error)
	DialMaster func(ctx context.Context, host string) (*rpc.Client, error)
}

// Check reports all that is wrong with the configuration.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults fills in the defaults and checks the whole; all faults are joined.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("slave: "+format, args...)) }
	if c.Data == "" {
		fault("no data directory: say --data DIR")
	}
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if err := checkAddr(c.Addr); err != nil {
		faults = append(faults, err)
	}
	switch {
	case c.Port == 0:
		c.Port = DefaultPort
	case c.Port < AnyPort || c.Port > 65535:
		fault("port %d is not between 1 and 65535", c.Port)
	}
	for _, d := range []time.Duration{c.HopTimeout, c.JoinInterval, c.DrainTimeout} {
		if d < 0 {
			fault("a timeout of %v is negative", d)
		}
	}
	c.HopTimeout = orDefault(c.HopTimeout, DefaultHopTimeout)
	c.JoinInterval = orDefault(c.JoinInterval, joinInterval)
	c.DrainTimeout = orDefault(c.DrainTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if _, _, err := net.SplitHostPort(c.Master); err == nil && c.DialMaster == nil {
		fault("the master %q has a port: leave it away, its portmapper knows it", c.Master)
	} else if strings.ContainsAny(c.Master, "[]/ \t\r\n") && c.DialMaster == nil {
		fault("the master %q is neither a host name nor an address; an IPv6 address takes no brackets", c.Master)
	}
	if c.DialMaster == nil {
		c.DialMaster = dialMaster
	}
	return c, errors.Join(faults...)
}

// checkAddr refuses what clnt_create would not take, or others could not reach.
func checkAddr(addr string) error {
	if ip, err := netip.ParseAddr(addr); err == nil && ip.IsUnspecified() {
		return fmt.Errorf("slave: %s is no address that others can reach: name the host's own, and --listen %s", addr, addr)
	}
	if _, err := machine.Parse(addr); err != nil {
		return fmt.Errorf("slave: %w", err)
	}
	return nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

func dialMaster(ctx context.Context, host string) (*rpc.Client, error) {
	return portmap.Dial(ctx, "tcp", host, structs.MASTER_PROG, structs.MASTER_V2, rpc.ClientConfig{})
}
