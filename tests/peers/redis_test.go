package peers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/tests/cpeer"
)

// redis is one connection to a redis-server (its protocol: RESP2).
type redis struct {
	c net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

const redisAddr = "127.0.0.1:6379"

// startRedis starts a redis-server that keeps nothing on disk.
func startRedis(t testing.TB) {
	server := cpeer.Tool(t, "redis-server")
	cpeer.Start(t, exec.Command(server, "--bind", "127.0.0.1", "--port", "6379", "--save", "", "--appendonly", "no", "--dir", t.TempDir()))
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", redisAddr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 60*time.Second, 10*time.Millisecond)
}

func dialRedis(t testing.TB) *redis {
	c, err := net.Dial("tcp", redisAddr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &redis{c, bufio.NewReaderSize(c, 1<<20), bufio.NewWriterSize(c, 1<<20)}
}

// do sends the commands at once and returns the last one's answer: an integer, or
// bytes.
func (r *redis) do(commands ...[]string) (n int64, data []byte, err error) {
	for _, command := range commands {
		fmt.Fprintf(r.w, "*%d\r\n", len(command))
		for _, arg := range command {
			fmt.Fprintf(r.w, "$%d\r\n", len(arg))
			r.w.WriteString(arg)
			r.w.WriteString("\r\n")
		}
	}
	if err := r.w.Flush(); err != nil {
		return 0, nil, err
	}
	for range commands {
		if n, data, err = r.answer(); err != nil {
			return 0, nil, err
		}
	}
	return n, data, nil
}

func (r *redis) answer() (n int64, data []byte, err error) {
	line, err := r.r.ReadString('\n')
	if err != nil {
		return 0, nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	switch line[0] {
	case '-':
		return 0, nil, errors.New("redis: " + line[1:])
	case ':':
		n, err = strconv.ParseInt(line[1:], 10, 64)
		return n, nil, err
	case '$':
		size, err := strconv.Atoi(line[1:])
		if err != nil || size < 0 {
			return 0, nil, err
		}
		data = make([]byte, size+2)
		_, err = io.ReadFull(r.r, data)
		return 0, data[:size], err
	}
	return 0, nil, nil
}
