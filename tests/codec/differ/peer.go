package differ

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"

	"starfish/xdr"
)

// What a Peer answers instead of a length.
const (
	Refused    = -1
	BytesLeft  = -2
	NotEncoded = -3
)

// flush asks the C program for what it has written.
const flush = 1<<32 - 1

// Peer is a running program of C rpcgen's code, testdata/peer.c.
type Peer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	index map[string]uint32
}

// Start starts the program at path, which knows the kinds of these names.
func Start(path string, names []string) (*Peer, error) {
	p := &Peer{cmd: exec.Command(path), index: map[string]uint32{}}
	for i, n := range names {
		p.index[n] = uint32(i)
	}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 1<<16)
	p.cmd.Stderr = os.Stderr
	return p, p.cmd.Start()
}

// Close ends the program.
func (p *Peer) Close() error {
	p.in.Close()
	return p.cmd.Wait()
}

// Through sends each of values through C's decoder and encoder. It returns how
// long each came back, or one of the numbers above, and the bytes.
func (p *Peer) Through(name string, values [][]byte) (lengths []int32, back [][]byte, err error) {
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(p.in, 1<<16)
		record := func(kind uint32, b []byte) {
			w.Write(binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, kind), uint32(len(b))))
			w.Write(b)
		}
		for _, b := range values {
			record(p.index[name], b)
		}
		record(flush, nil)
		sent <- w.Flush()
	}()
	for i := range values {
		var n int32
		if err := binary.Read(p.out, binary.NativeEndian, &n); err != nil {
			return nil, nil, fmt.Errorf("the C program died of %s %x: %w", name, values[i], err)
		}
		b := make([]byte, max(0, n))
		if _, err := io.ReadFull(p.out, b); err != nil {
			return nil, nil, err
		}
		lengths, back = append(lengths, n), append(back, b)
	}
	return lengths, back, <-sent
}

// Compare sends n random values of kind k, and as many that are damaged, through
// C: what we wrote is read and comes back the same, and of damaged bytes our lax
// reading takes what libtirpc takes.
func (p *Peer) Compare(rng *rand.Rand, k Kind, n int) error {
	var good, bad [][]byte
	for range n {
		_, b, err := Random(rng, k)
		if err != nil {
			return err
		}
		good, bad = append(good, b), append(bad, Damage(rng, b))
	}
	lengths, back, err := p.Through(k.Name, good)
	if err != nil {
		return err
	}
	for i, b := range good {
		if lengths[i] != int32(len(b)) || !bytes.Equal(b, back[i]) {
			return fmt.Errorf("%s %x: C answers %d and %x", k.Name, b, lengths[i], back[i])
		}
	}
	lengths, _, err = p.Through(k.Name, bad)
	if err != nil {
		return err
	}
	for i, b := range bad {
		d := xdr.NewDecoder(b)
		d.Lax = true
		err := k.Make().DecodeXDR(d)
		if refused := lengths[i] == Refused; refused != (err != nil) || !refused && (lengths[i] == BytesLeft) != (d.Len() > 0) {
			return fmt.Errorf("damaged %s %x: C answers %d; ours %v, %d bytes left", k.Name, b, lengths[i], err, d.Len())
		}
	}
	return nil
}

// Damage changes, cuts or lengthens b.
func Damage(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	switch rng.IntN(4) {
	case 0:
		return b[:rng.IntN(len(b)+1)&^3]
	case 1:
		return append(b, 0, 0, 0, byte(rng.IntN(3)))
	}
	if len(b) == 0 {
		return b
	}
	if i := rng.IntN(len(b)); rng.IntN(2) == 0 {
		b[i|3] = byte(rng.IntN(12)) // a length or a flag
	} else {
		b[i|2] = byte(rng.IntN(4)) // C walks over all that a larger length would allocate
	}
	return b
}
