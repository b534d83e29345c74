// Package node is what the daemons share besides what they serve: which signals
// end them, how a supervisor learns of their state, where their log goes, and
// that whatever was started is waited for.
package node

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// A Service is what a daemon runs: a master, a slave, a portmapper.
type Service interface {
	Run(context.Context) error // serves until the context ends
	Ready() <-chan struct{}    // closed when it serves
}

// Signals returns a context that SIGINT and SIGTERM end; a second one ends the
// process at once. SIGHUP and SIGPIPE do nothing: who logged in goes away, and
// so does who reads the log, and the daemon stays. stop is called at the end.
func Signals(parent context.Context) (ctx context.Context, stop func()) {
	// Caught and not ignored: a program that the daemon starts has the system's
	// behaviour again.
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stopNotify := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		stopNotify()
	}()
	return ctx, func() {
		stopNotify()
		<-done
		signal.Stop(deaf)
	}
}

// Serve runs s until ctx ends or s fails, and tells the supervisor when it
// serves and when it ends. ready is called once s serves, and returns the state
// in words. Serve returns when Run has returned and everything is told.
func Serve(ctx context.Context, s Service, n *Notifier, ready func() string) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
		n.Ready(ready())
	case <-ctx.Done():
	case err := <-ended:
		return err
	}
	select {
	case <-ctx.Done():
		n.Stopping()
		return <-ended
	case err := <-ended:
		n.Stopping()
		return err
	}
}
