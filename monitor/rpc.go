// Package monitor counts for Prometheus what the other packages report by
// interfaces of their own.
package monitor

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"starfish/rpc"
)

// maxProcs bounds the label sets of an RPC: what comes beyond them counts as
// "other".
const maxProcs = 1000

// other is the label of programs and procedures that the server does not have,
// so that strangers make no series.
const other = "other"

// callTimes are the buckets of call times, in seconds: from a NULL call to one
// that reaches a client's timeout.
var callTimes = []float64{5e-6, 2e-5, 1e-4, 5e-4, 2e-3, 0.01, 0.05, 0.2, 1, 5, 25}

// RPC is the counters of RPC servers, an rpc.Metrics.
//
//	starfish_rpc_calls_total{network, program, version, procedure, status}
//	starfish_rpc_call_seconds{program, version, procedure}  a histogram
//	starfish_rpc_bytes_total{network, direction}            in, out
//	starfish_rpc_connections{network}
//	starfish_rpc_dropped_total{network, reason}             rpc.DropReasons
type RPC struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	bytes   *prometheus.CounterVec
	conns   *prometheus.GaugeVec
	dropped *prometheus.CounterVec
	name    NameFunc

	procs sync.Map // of procKey: *procMetrics
	mu    sync.Mutex
	count int // of procs
}

// NameFunc returns what a program and a procedure are called in labels.
type NameFunc func(prog, vers, proc uint32) (program, procedure string)

// Numbers names programs and procedures by their numbers.
func Numbers(prog, _, proc uint32) (program, procedure string) {
	return "0x" + strconv.FormatUint(uint64(prog), 16), strconv.FormatUint(uint64(proc), 10)
}

type procKey struct {
	network          string
	prog, vers, proc uint32
	status           string
}

type procMetrics struct {
	calls   prometheus.Counter
	seconds prometheus.Observer
	in, out prometheus.Counter
}

// NewRPC returns counters that are registered with reg. A nil name is Numbers.
func NewRPC(reg prometheus.Registerer, name NameFunc) *RPC {
	if name == nil {
		name = Numbers
	}
	counter := func(what, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "starfish_rpc_" + what, Help: help}, labels)
	}
	r := &RPC{
		name:    name,
		calls:   counter("calls_total", "Calls answered, by what the reply says.", "network", "program", "version", "procedure", "status"),
		bytes:   counter("bytes_total", "Bytes of calls (in) and of their replies (out).", "network", "direction"),
		dropped: counter("dropped_total", "Connections closed and datagrams dropped without a reply.", "network", "reason"),
		conns:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "starfish_rpc_connections", Help: "Stream connections."}, []string{"network"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "starfish_rpc_call_seconds", Help: "Time in the handler.", Buckets: callTimes,
		}, []string{"program", "version", "procedure"}),
	}
	reg.MustRegister(r.calls, r.seconds, r.bytes, r.conns, r.dropped)
	return r
}

// Called counts a call.
func (r *RPC) Called(c *rpc.Call, res rpc.CallResult) {
	key := procKey{c.Network, c.Prog, c.Vers, c.Proc, status(res.Err)}
	if unknown(res.Err) {
		key.prog, key.vers, key.proc = 0, 0, 0
	}
	m := r.proc(key, res.Err)
	m.calls.Inc()
	m.seconds.Observe(res.Took.Seconds())
	m.in.Add(float64(res.In))
	m.out.Add(float64(res.Out))
}

// Connected counts connections.
func (r *RPC) Connected(network string, change int) {
	r.conns.WithLabelValues(network).Add(float64(change))
}

// Dropped counts what got no reply.
func (r *RPC) Dropped(network, reason string) { r.dropped.WithLabelValues(network, reason).Inc() }

// proc returns the counters of a key, which are looked up by their labels once.
func (r *RPC) proc(key procKey, err *rpc.ReplyError) *procMetrics {
	if m, ok := r.procs.Load(key); ok {
		return m.(*procMetrics)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	program, version, procedure := other, other, other
	if !unknown(err) && r.count < maxProcs {
		program, procedure = r.name(key.prog, key.vers, key.proc)
		version = strconv.FormatUint(uint64(key.vers), 10)
	}
	m := &procMetrics{
		calls:   r.calls.WithLabelValues(key.network, program, version, procedure, key.status),
		seconds: r.seconds.WithLabelValues(program, version, procedure),
		in:      r.bytes.WithLabelValues(key.network, "in"),
		out:     r.bytes.WithLabelValues(key.network, "out"),
	}
	if r.count < maxProcs { // else it is looked up each time
		if _, known := r.procs.LoadOrStore(key, m); !known {
			r.count++
		}
	}
	return m
}

// unknown reports a call whose program, version and procedure are the caller's
// invention, or may be.
func unknown(err *rpc.ReplyError) bool {
	if err == nil {
		return false
	}
	if err.Stat == rpc.MSG_DENIED {
		return true
	}
	switch err.AcceptStat {
	case rpc.PROG_UNAVAIL, rpc.PROG_MISMATCH, rpc.PROC_UNAVAIL:
		return true
	}
	return false
}

// status is the label of a reply.
func status(err *rpc.ReplyError) string {
	switch {
	case err == nil:
		return rpc.SUCCESS.String()
	case err.Stat == rpc.MSG_ACCEPTED:
		return err.AcceptStat.String()
	case err.RejectStat == rpc.AUTH_ERROR:
		return err.AuthStat.String()
	}
	return err.RejectStat.String()
}
