package codec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/cpeer"
	"starfish/xdr"
)

// What a cPeer answers instead of a length.
const (
	refused   = -1
	bytesLeft = -2
)

// cPeer is a running program of rpcgen's C code for one .x file.
type cPeer struct {
	in    io.WriteCloser
	out   *bufio.Reader
	index map[string]uint32
}

// startPeer compiles and starts the C side of f.
func startPeer(t *testing.T, f file) *cPeer {
	t.Helper()
	cpeer.Require(t, "rpcgen", "gcc", "libtirpc")
	dir := t.TempDir()
	flags := append([]string{"-C"}, f.flags...)
	stubs := cpeer.Rpcgen(t, dir, renamed(t, f.path), flags...)
	source, err := os.ReadFile("testdata/peer.c")
	require.NoError(t, err)
	p := &cPeer{index: map[string]uint32{}}
	var table []string
	for _, k := range f.kinds {
		if !notInC[k.name] {
			p.index[k.name] = uint32(len(table))
			table = append(table, fmt.Sprintf("{(xdrproc_t)xdr_t_%s,sizeof(t_%s)}", k.name, k.name))
		}
	}
	defines := fmt.Sprintf("#define HEADER %q\n#define KINDS %s\n", filepath.Base(stubs.Header), strings.Join(table, ","))
	main := cpeer.Source(t, dir, "peer.c", defines+string(source))
	args := append([]string{"-w", "-Dbool=bool_t"}, f.flags...) // rpcgen forgets one bool
	cmd := exec.Command(cpeer.Compile(t, dir, "peer", []string{main, stubs.XDR}, args...))
	p.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		p.in.Close()
		require.NoError(t, cmd.Wait(), "the C peer")
	})
	return p
}

// languageWords are the names in an .x file that are not the file's own.
var languageWords = map[string]bool{
	"bool": true, "case": true, "const": true, "default": true, "double": true, "enum": true, "float": true, "hyper": true,
	"int": true, "opaque": true, "quadruple": true, "string": true, "struct": true, "switch": true, "typedef": true, "union": true,
	"unsigned": true, "void": true, "program": true, "version": true, "TRUE": true, "FALSE": true,
}

var name = regexp.MustCompile(`\b[A-Za-z_]\w*`)

// renamed copies an .x file with t_ before all names: libtirpc's headers have
// some of them too. Names are not on the wire.
func renamed(t *testing.T, path string) string {
	t.Helper()
	src, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(src), "\n")
	for i, l := range lines {
		if !strings.HasPrefix(l, "#") {
			lines[i] = name.ReplaceAllStringFunc(l, func(s string) string {
				if languageWords[s] {
					return s
				}
				return "t_" + s
			})
		}
	}
	return cpeer.Source(t, t.TempDir(), "t_"+filepath.Base(path), strings.Join(lines, "\n"))
}

// through sends b through C's decoder and encoder.
func (p *cPeer) through(t *testing.T, name string, b []byte) (int32, []byte) {
	t.Helper()
	msg := binary.NativeEndian.AppendUint32(nil, p.index[name])
	msg = binary.NativeEndian.AppendUint32(msg, uint32(len(b)))
	_, err := p.in.Write(append(msg, b...))
	require.NoError(t, err)
	var n int32
	require.NoError(t, binary.Read(p.out, binary.NativeEndian, &n), "the C peer died of %s %x", name, b)
	if n <= 0 {
		return n, nil
	}
	back := make([]byte, n)
	_, err = io.ReadFull(p.out, back)
	require.NoError(t, err)
	return n, back
}

func TestC(t *testing.T) {
	for _, f := range files {
		t.Run(filepath.Base(f.path), func(t *testing.T) {
			peer := startPeer(t, f)
			rng := rand.New(rand.NewPCG(11, 12))
			for _, k := range f.kinds {
				if notInC[k.name] {
					continue
				}
				for range 300 {
					_, b := random(t, rng, k)
					peer.agrees(t, k, b)
					peer.refusesAsLax(t, k, damage(rng, b))
				}
			}
		})
	}
}

// agrees checks that C reads what we wrote, and writes the same; so we read
// what C writes.
func (p *cPeer) agrees(t *testing.T, k kind, b []byte) {
	t.Helper()
	n, back := p.through(t, k.name, b)
	require.Equal(t, int32(len(b)), n, "%s %x", k.name, b)
	require.Equal(t, b, back, k.name)
}

// refusesAsLax checks that the lax reading takes of damaged bytes what
// libtirpc takes.
func (p *cPeer) refusesAsLax(t *testing.T, k kind, bad []byte) {
	t.Helper()
	n, _ := p.through(t, k.name, bad)
	d := xdr.NewDecoder(bad)
	d.Lax = true
	err := k.make().DecodeXDR(d)
	if n == refused {
		require.Error(t, err, "%s %x", k.name, bad)
		return
	}
	require.NoError(t, err, "%s %x", k.name, bad)
	require.Equal(t, n == bytesLeft, d.Len() > 0, "%s %x", k.name, bad)
}

// damage changes, cuts or lengthens b.
func damage(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	switch rng.IntN(4) {
	case 0:
		return b[:rng.IntN(len(b)+1)&^3]
	case 1:
		return append(b, 0, 0, 0, byte(rng.IntN(3)))
	}
	if i := rng.IntN(len(b)); rng.IntN(2) == 0 {
		b[i|3] = byte(rng.IntN(12)) // a length or a flag
	} else {
		b[i|2] = byte(rng.Uint32()) // C walks over what a larger length would allocate
	}
	return b
}
