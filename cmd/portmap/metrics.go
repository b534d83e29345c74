package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"starfish/monitor"
	"starfish/node"
	"starfish/portmap"
)

// metrics is the portmapper's counters for Prometheus.
type metrics struct {
	*monitor.RPC
	refused *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		RPC: monitor.NewRPC(reg, func(_, vers, proc uint32) (program, procedure string) {
			return "portmapper", portmap.ProcName(vers, proc)
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "starfish_portmap_refused_total",
			Help: "Calls refused: rate (of one source), amplification (answer over UDP too long for a stranger), long (too many long answers), remote (change from another host), port (below 1024), forward (CALLIT).",
		}, []string{"reason"}),
	}
	reg.MustRegister(m.refused)
	for _, reason := range portmap.Reasons {
		m.refused.WithLabelValues(reason)
	}
	return m
}

// Refused counts a call that was not served.
func (m metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// page is the HTTP server of the metrics; nil is none.
type page struct {
	ln  net.Listener
	log *node.Log
	reg *prometheus.Registry
}

// startMetrics opens the address of the metrics, where there is one, and has
// the portmapper count.
func (o options) startMetrics(cfg *portmap.Config) (*page, error) {
	if o.metrics == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", o.metrics)
	if err != nil {
		return nil, fmt.Errorf("portmap: --metrics: %w", err)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Metrics = newMetrics(reg)
	cfg.Logger.Info("metrics", "url", fmt.Sprintf("http://%s/metrics", ln.Addr()))
	return &page{ln, o.log, reg}, nil
}

// serve serves the page until stop.
func (p *page) serve(srv *portmap.Server) (stop func()) {
	if p == nil {
		return func() {}
	}
	p.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "starfish_portmap_registrations",
		Help: "Registrations, the portmapper's own included.",
	}, func() float64 { return float64(srv.Registrations()) }))
	p.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "starfish_log_lines_lost_total",
		Help: "Log lines that could not be written.",
	}, func() float64 { return float64(p.log.Lost()) }))
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
