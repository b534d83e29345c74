package node

import (
	"log/slog"
	"net"
	"os"
	"strings"
)

// A Notifier tells the supervisor how the daemon is (sd_notify(3)). A nil one
// tells nobody.
type Notifier struct{ conn *net.UnixConn }

// NewNotifier connects to the socket that NOTIFY_SOCKET names; "@" begins an
// abstract one. It is nil where there is none. It is to be called before the
// daemon gives up rights.
func NewNotifier(log *slog.Logger) *Notifier {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		log.Warn("the supervisor is not told when we are ready: NOTIFY_SOCKET cannot be reached", "err", err)
		return nil
	}
	return &Notifier{conn}
}

// Ready says that the daemon serves; status is a line for people.
func (n *Notifier) Ready(status string) {
	n.send("READY=1\nSTATUS=" + strings.ReplaceAll(status, "\n", " "))
}

// Stopping says that the daemon begins to end.
func (n *Notifier) Stopping() { n.send("STOPPING=1") }

func (n *Notifier) send(state string) {
	if n != nil {
		_, _ = n.conn.Write([]byte(state)) // who asked and does not listen misses nothing
	}
}

// Close ends the connection.
func (n *Notifier) Close() {
	if n != nil {
		n.conn.Close()
	}
}
