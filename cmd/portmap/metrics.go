package main

import (
	"context"
	"fmt"

	"starfish/monitor"
	"starfish/node"
	"starfish/portmap"
)

// metrics is the portmapper's counters.
type metrics struct {
	*monitor.RPC
	refused func(reason string)
}

// Refused counts a call that was not served.
func (m metrics) Refused(reason string) { m.refused(reason) }

// page is the HTTP server of the metrics; nil is none.
type page struct {
	*monitor.Page
	log *node.Log
}

// startMetrics opens the address of the metrics, where there is one, and has
// the portmapper count.
func (o options) startMetrics(ctx context.Context, cfg *portmap.Config) (*page, error) {
	if o.metrics == "" {
		return nil, nil
	}
	p, err := monitor.NewPage(ctx, o.metrics)
	if err != nil {
		return nil, fmt.Errorf("portmap: --metrics: %w", err)
	}
	cfg.Metrics = metrics{
		RPC: p.RPC(func(_, vers, proc uint32) (program, procedure string) {
			return "portmapper", portmap.ProcName(vers, proc)
		}),
		refused: p.Reasons("starfish_portmap_refused_total",
			"Calls refused: rate (of one source), amplification (answer over UDP too long for a stranger), long (too many long answers), remote (change from another host), port (below 1024), forward (CALLIT).",
			portmap.Reasons...),
	}
	cfg.Logger.Info("metrics", "url", fmt.Sprintf("http://%s/metrics", p.Addr()))
	return &page{p, o.log}, nil
}

// serve serves the page until stop.
func (p *page) serve(srv *portmap.Server) (stop func()) {
	if p == nil {
		return func() {}
	}
	p.Gauge("starfish_portmap_registrations", "Registrations, the portmapper's own included.",
		func() float64 { return float64(srv.Registrations()) })
	p.Counter("starfish_log_lines_lost_total", "Log lines that could not be written.",
		func() float64 { return float64(p.log.Lost()) })
	return p.Serve()
}
