package monitor

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Page is the counters of one process, and the HTTP server that shows them at
// /metrics. The counters of the Go runtime and of the process are there already.
type Page struct {
	ln  net.Listener
	reg *prometheus.Registry
}

// NewPage opens the address, host:port, of the page. Serve serves it.
func NewPage(ctx context.Context, addr string) (*Page, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Page{ln, reg}, nil
}

// Addr is the address that is listened on.
func (p *Page) Addr() net.Addr { return p.ln.Addr() }

// RPC adds the counters of RPC servers.
func (p *Page) RPC(name NameFunc) *RPC { return NewRPC(p.reg, name) }

// Reasons adds a counter with the label "reason", at zero for each of reasons. The
// function returned counts one.
func (p *Page) Reasons(name, help string, reasons ...string) (count func(reason string)) {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
	p.reg.MustRegister(v)
	for _, reason := range reasons {
		v.WithLabelValues(reason)
	}
	return func(reason string) { v.WithLabelValues(reason).Inc() }
}

// Gauge adds a value that is read when it is asked for.
func (p *Page) Gauge(name, help string, read func() float64) {
	p.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// Counter adds a count that is read when it is asked for.
func (p *Page) Counter(name, help string, read func() float64) {
	p.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

// Serve serves the page until stop is called.
func (p *Page) Serve() (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.reg, promhttp.HandlerOpts{}))
	const timeout = 10 * time.Second
	web := &http.Server{Handler: mux, ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: timeout, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.Serve(p.ln) // it ends by stop
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			web.Close()
		}
		<-done
	}
}
