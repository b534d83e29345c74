//go:build linux

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/structs"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// TestDocs runs what the documents say. A block ```console is a shell session:
// lines that begin with "$ " are typed, what follows is what must be printed.
// A line "..." stands for any number of lines, and ... inside or at the end of
// a line for anything. A block ```c or ```go whose first line is a comment with
// a path is saved there, those of all documents before the first command: they
// share a checkout. What their commands leave behind in it hurts no go command.
func TestDocs(t *testing.T) {
	all := map[string][]block{}
	for _, name := range documents {
		text, err := os.ReadFile("../../" + name)
		require.NoError(t, err)
		all[name] = fences(string(text))
		require.NotEmpty(t, all[name])
	}
	for _, name := range documents {
		t.Run(filepath.Base(name), func(t *testing.T) {
			if !netns.Enter(t) {
				return
			}
			if name == "README.md" || name == "docs/c-clients.md" {
				cpeer.Require(t, "rpcgen", "cc", "pkg-config", "libtirpc", "valgrind")
			}
			s := newSession(t)
			saved := 0
			for _, blocks := range all {
				saved += s.saveAll(t, blocks)
			}
			require.NotZero(t, saved)
			blocks := all[name]
			for _, b := range blocks {
				if b.kind == "console" {
					s.console(t, name, b)
				}
			}
			s.stillBuilds(t)
			if name == "docs/wire.md" {
				s.send(t, "bin/starfish up &")
				s.console(t, name, block{text: "$ bin/starfish load examples/elements/elements.index\n..."})
				checkBytes(t, blocks)
			}
		})
	}
}

// documents are those whose commands run.
var documents = []string{"README.md", "docs/query.md", "docs/wire.md", "docs/c-clients.md"}

// TestReadmeNamesGo: the Go that README asks for is the one of go.mod.
func TestReadmeNamesGo(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	require.NotNil(t, version)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), fmt.Sprintf("Go %s or newer", version[1]))
}

// TestLinks follows every relative link of the documents.
func TestLinks(t *testing.T) {
	docs, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)#:]+)[)#]`)
	for _, doc := range append(docs, "../../README.md") {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1]))
			require.NoError(t, err, "a link of %s", doc)
		}
	}
}

// block is one fenced block of a document.
type block struct {
	kind, text string
	line       int // of its first line
}

func fences(doc string) (blocks []block) {
	open := -1
	lines := strings.Split(doc, "\n")
	for i, l := range lines {
		switch {
		case !strings.HasPrefix(l, "```"):
		case open < 0:
			open = i
		default:
			blocks = append(blocks, block{strings.TrimPrefix(lines[open], "```"), strings.Join(lines[open+1:i], "\n"), open + 2})
			open = -1
		}
	}
	return blocks
}

// session is one shell in a copy of the repository.
type session struct {
	dir string
	in  io.Writer
	out *bufio.Reader
}

func newSession(t *testing.T) *session {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	s := &session{dir: t.TempDir()}
	copyTree(t, root, s.dir)
	require.NoError(t, os.Symlink(os.Getenv(binEnv), filepath.Join(s.dir, "bin")))

	cmd := exec.Command("sh")
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv(binEnv)+":"+os.Getenv("PATH"), "PWD="+s.dir, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	s.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w.Close()
	s.out = bufio.NewReader(r)
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // the shell's group: what it left in the background
		cmd.Wait()
		r.Close()
	})
	return s
}

// copyTree copies a checkout without what is made in it. It copies, since no go
// command follows a link to a directory.
func copyTree(t *testing.T, from, to string) {
	made := map[string]bool{".git": true, "bin": true, "quick": true}
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case made[name] && d.IsDir():
			return fs.SkipDir
		case made[name]: // .git is a file in a worktree
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode())
	}))
}

// stillBuilds runs the go commands that everyone runs in a checkout, with a cache
// that is the same for all copies.
func (s *session) stillBuilds(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"list", "./..."}, {"build", "./quick/..."}, {"vet", "./quick/..."}, {"test", "-run", "TestImports", "./tests", "./quick/..."},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = s.dir
		cmd.Env = append(os.Environ(), "PWD="+s.dir, "GOFLAGS=-trimpath -buildvcs=false", "GOPROXY=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
	}
}

const mark = "::end of output::"

// send types a command and returns what it printed. One that ends in & goes on
// in the background, and is waited for until it says ready.
func (s *session) send(t *testing.T, command string) string {
	t.Helper()
	end := mark
	if strings.HasSuffix(command, "&") {
		end = "ready"
		fmt.Fprintf(s.in, "%s\n", command)
	} else {
		fmt.Fprintf(s.in, "%s\necho %s\n", command, mark)
	}
	type result struct {
		text string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		var b strings.Builder
		for {
			l, err := s.out.ReadString('\n')
			if err != nil {
				got <- result{b.String() + l, err}
				return
			}
			if strings.TrimSuffix(l, "\n") == end {
				if end == "ready" {
					b.WriteString(l)
				}
				got <- result{b.String(), nil}
				return
			}
			b.WriteString(l)
		}
	}()
	select {
	case r := <-got:
		require.NoError(t, r.err, "%s: %s", command, r.text)
		return r.text
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s: no end", command)
		return ""
	}
}

func (s *session) console(t *testing.T, doc string, b block) {
	lines := strings.Split(b.text, "\n")
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		require.True(t, ok, "%s:%d: a session begins with a command", doc, b.line+i)
		at := b.line + i
		i++
		var want []string
		for i < len(lines) && !strings.HasPrefix(lines[i], "$ ") {
			want = append(want, lines[i])
			i++
		}
		got := s.send(t, command)
		if !matcher(want).MatchString(got) {
			t.Errorf("%s:%d: %s\nprinted:\n%s\ninstead of:\n%s", doc, at, command, got, strings.Join(want, "\n"))
		}
	}
}

// matcher makes a pattern of expected output.
func matcher(want []string) *regexp.Regexp {
	var p strings.Builder
	p.WriteString(`\A`)
	for _, l := range want {
		if l == "..." {
			p.WriteString(`(?s:(.*\n)?)`)
			continue
		}
		p.WriteString(strings.ReplaceAll(regexp.QuoteMeta(l), `\.\.\.`, `.*`) + `\n`)
	}
	p.WriteString(`\z`)
	return regexp.MustCompile(p.String())
}

// saveAll writes the programs of a document and returns how many there are.
func (s *session) saveAll(t *testing.T, blocks []block) (saved int) {
	for _, b := range blocks {
		if b.kind == "c" || b.kind == "go" {
			s.save(t, b)
			saved++
		}
	}
	return saved
}

// save writes a block to the file that its first line names.
func (s *session) save(t *testing.T, b block) {
	first, _, _ := strings.Cut(b.text, "\n")
	name := strings.Trim(first, "/* ")
	require.True(t, filepath.IsLocal(name), "%q names no file", first)
	path := filepath.Join(s.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(b.text+"\n"), 0o644))
}

// checkBytes sends the block ```call to the master and compares its answer with
// the block ```reply.
func checkBytes(t *testing.T, blocks []block) {
	var call, reply []byte
	for _, b := range blocks {
		switch b.kind {
		case "call":
			call = bytesOf(t, b.text)
		case "reply":
			reply = bytesOf(t, b.text)
		}
	}
	require.NotEmpty(t, call)
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	addr, err := portmap.Lookup(ctx, "tcp", "127.0.0.1", structs.MASTER_PROG, structs.MASTER_V1)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(ready)))
	_, err = conn.Write(call)
	require.NoError(t, err)
	got := make([]byte, len(reply))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(reply, got), "docs/wire.md: the reply is\n%x\nand not\n%x", got, reply)
}

// bytesOf reads the hex columns, which two spaces part from what they mean.
func bytesOf(t *testing.T, text string) []byte {
	var all []byte
	for _, l := range strings.Split(text, "\n") {
		columns, _, _ := strings.Cut(l, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(columns, " ", ""))
		require.NoError(t, err)
		all = append(all, b...)
	}
	return all
}
