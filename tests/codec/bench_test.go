package codec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"testing"

	rasky "github.com/rasky/go-xdr/xdr2"
	"github.com/stretchr/testify/require"

	"starfish/structs"
	"starfish/tests/codec/differ"
	"starfish/tests/codec/nfs3"
	"starfish/tests/codec/sample"
	"starfish/tests/cpeer"
	"starfish/xdr"
)

// load is a value whose encoding and decoding is timed.
type load struct {
	name  string
	file  string // of ours
	kind  differ.Kind
	value differ.Value
	rasky any // the same for rasky/go-xdr; nil where that does not know the type
	fresh func() any
}

// loads are those of the speed table: values of all kinds of work.
func loads() []load {
	plan := list(1000)
	names := newDir(100)
	hypers := make(sample.Hypers, 10_000)
	for i := range hypers {
		hypers[i] = rand.Uint64()
	}
	megabyte := make(sample.Bytes, 1<<20)
	for i := range megabyte {
		megabyte[i] = byte(i)
	}
	old := toRasky(plan)
	words, raw := []uint64(hypers), []byte(megabyte)
	return []load{
		{"list", "../../structs.x", differ.Of[structs.HandleQueryArgs]("handle_query_args"), &plan, &old, func() any { return new(raskyArgs) }},
		{"readdirplus", "nfs3/nfs3.x", differ.Of[nfs3.READDIRPLUS3res]("READDIRPLUS3res"), &names, nil, nil},
		{"hypers", "sample/sample.x", differ.Of[sample.Hypers]("hypers"), &hypers, &words, func() any { return new([]uint64) }},
		{"opaque", "sample/sample.x", differ.Of[sample.Bytes]("bytes"), &megabyte, &raw, func() any { return new([]byte) }},
	}
}

// BenchmarkCodec times our code beside C rpcgen's at -O2 over libtirpc, and
// rasky/go-xdr: LOAD/decode or encode/go, c or rasky.
//
//	list         1,000 nodes of structs.x and a word
//	readdirplus  NFS version 3: 100 entries with attributes and handles
//	hypers       an array of 10,000 unsigned hypers
//	opaque       1 MiB
//
// The Go runs have a live heap of 64 MiB beside them, as a server has: without
// it, a program that does nothing else collects garbage every few values.
func BenchmarkCodec(b *testing.B) {
	heap := make([]byte, 64<<20)
	defer runtime.KeepAlive(heap)
	for _, l := range loads() {
		buf, err := l.value.AppendXDR(nil)
		require.NoError(b, err)
		program := l.cProgram(b)
		b.Run(l.name+"/decode", func(b *testing.B) {
			b.Run("go", func(b *testing.B) { l.decode(b, buf, false) })
			if l.name == "opaque" {
				b.Run("go-alias", func(b *testing.B) { l.decode(b, buf, true) })
			}
			b.Run("c", func(b *testing.B) { l.inC(b, program, buf, 0) })
			b.Run("rasky", func(b *testing.B) { l.raskyDecode(b, buf) })
		})
		b.Run(l.name+"/encode", func(b *testing.B) {
			b.Run("go", func(b *testing.B) { l.encode(b, buf) })
			b.Run("c", func(b *testing.B) { l.inC(b, program, buf, 1) })
			b.Run("rasky", func(b *testing.B) { l.raskyEncode(b, buf) })
		})
	}
}

func (l load) encode(b *testing.B, want []byte) {
	b.SetBytes(int64(len(want)))
	b.ReportAllocs()
	buf := make([]byte, 0, len(want))
	var err error
	for b.Loop() {
		if buf, err = l.value.AppendXDR(buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
	require.Equal(b, want, buf)
}

func (l load) decode(b *testing.B, buf []byte, alias bool) {
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	d := xdr.Decoder{Alias: alias}
	for b.Loop() {
		d.Reset(buf)
		if err := l.kind.Make().DecodeXDR(&d); err != nil {
			b.Fatal(err)
		}
	}
}

// cProgram compiles testdata/bench.c for the load; "" where C's tools are missing.
func (l load) cProgram(b *testing.B) string {
	for _, tool := range []string{"rpcgen", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return ""
		}
	}
	for _, f := range ours {
		if f.x == l.file {
			return cProgram(b, f, []string{l.kind.Name}, "bench")
		}
	}
	panic("no such file: " + l.file)
}

// inC runs the C program and reports its time: which 0 is decoding, 1 encoding.
func (l load) inC(b *testing.B, program string, buf []byte, which int) {
	cpeer.Require(b, "rpcgen", "gcc", "libtirpc")
	b.SetBytes(int64(len(buf)))
	b.ResetTimer()
	cmd := exec.Command(program, "0", fmt.Sprint(b.N))
	cmd.Stdin = bytes.NewReader(buf)
	out, err := cmd.Output()
	b.StopTimer()
	require.NoError(b, err)
	var took [2]float64
	_, err = fmt.Sscan(string(out), &took[0], &took[1])
	require.NoError(b, err)
	b.ReportMetric(took[which]/float64(b.N), "ns/op")
}

func (l load) raskyEncode(b *testing.B, want []byte) {
	if l.rasky == nil {
		b.Skip("rasky/go-xdr does not know the type")
	}
	b.SetBytes(int64(len(want)))
	b.ReportAllocs()
	var buf bytes.Buffer
	for b.Loop() {
		buf.Reset()
		if _, err := rasky.Marshal(&buf, l.rasky); err != nil {
			b.Fatal(err)
		}
	}
	require.Equal(b, want, buf.Bytes())
}

func (l load) raskyDecode(b *testing.B, buf []byte) {
	if l.rasky == nil {
		b.Skip("rasky/go-xdr does not know the type")
	}
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rasky.Unmarshal(bytes.NewReader(buf), l.fresh()); err != nil {
			b.Fatal(err)
		}
	}
}

// list returns a list of n nodes on one machine.
func list(n int) structs.HandleQueryArgs {
	nodes := make([]structs.MachineVecNode, n)
	for i := range nodes {
		nodes[i] = structs.MachineVecNode{MachineAddr: "node-17.example", Vector: structs.VecT(i)}
		if i > 0 {
			nodes[i-1].Next = &nodes[i]
		}
	}
	args := structs.HandleQueryArgs{Result: 1}
	if n > 0 {
		args.List = &nodes[0]
	}
	return args
}

// newDir returns the reply to a READDIRPLUS of a folder with n files.
func newDir(n int) nfs3.READDIRPLUS3res {
	res := nfs3.READDIRPLUS3resok{Cookieverf: nfs3.Cookieverf3{1, 2}}
	end := &res.Reply.Entries
	for i := range n {
		handle := bytes.Repeat([]byte{byte(i)}, 28) // as long as Linux has them
		attr := nfs3.Fattr3{Type: nfs3.NF3REG, Mode: 0o644, Nlink: 1, Size: nfs3.Size3(i), Fileid: nfs3.Fileid3(i)}
		*end = &nfs3.Entryplus3{Fileid: nfs3.Fileid3(i), Name: nfs3.Filename3(fmt.Sprintf("a-file-of-some-length-%d.txt", i)), Cookie: nfs3.Cookie3(i),
			NameAttributes: nfs3.NewPostOpAttrAttributes(attr), NameHandle: nfs3.NewPostOpFh3Handle(handle)}
		end = &(*end).Nextentry
	}
	res.Reply.Eof = true
	return nfs3.NewREADDIRPLUS3resResok(res)
}

// raskyNode is a list node as rasky/go-xdr wants it.
type raskyNode struct {
	MachineAddr string
	Vector      uint64
	Next        *raskyNode `xdr:"optional"`
}

type raskyArgs struct {
	List   *raskyNode `xdr:"optional"`
	Result uint64
}

func toRasky(v structs.HandleQueryArgs) raskyArgs {
	out := raskyArgs{Result: uint64(v.Result)}
	p := &out.List
	for n := v.List; n != nil; n = n.Next {
		*p = &raskyNode{MachineAddr: n.MachineAddr, Vector: uint64(n.Vector)}
		p = &(*p).Next
	}
	return out
}
