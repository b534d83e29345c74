//go:build linux

package codec

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	foreign "github.com/willscott/go-nfs-client/nfs"
	foreignrpc "github.com/willscott/go-nfs-client/nfs/rpc"

	"starfish/portmap"
	"starfish/rpc"
	"starfish/tests/codec/nfs3"
	"starfish/tests/netns"
)

// export serves a folder of files by NFS version 3, and its mount program. A
// handle is a file's name; that of the folder is ".".
type export struct {
	names []string
	data  map[string]string
}

func newExport(n int) *export {
	f := &export{names: []string{"."}, data: map[string]string{}}
	for i := range n {
		name := fmt.Sprintf("file-%03d", i)
		f.names = append(f.names, name)
		f.data[name] = strings.Repeat(name, 1+i*100)
	}
	return f
}

func (f *export) attributes(name string) nfs3.Fattr3 {
	a := nfs3.Fattr3{Type: nfs3.NF3REG, Mode: 0o644, Nlink: 1, Size: nfs3.Size3(len(f.data[name])), Fsid: 1,
		Fileid: nfs3.Fileid3(1 + slices.Index(f.names, name)), Mtime: nfs3.Nfstime3{Seconds: 1_000_000_000}}
	if name == "." {
		a.Type, a.Mode = nfs3.NF3DIR, 0o755
	}
	return a
}

func (f *export) postOp(name string) nfs3.PostOpAttr {
	return nfs3.NewPostOpAttrAttributes(f.attributes(name))
}

func (f *export) has(name string) bool { return slices.Contains(f.names, name) }

func (f *export) Nfsproc3Null(context.Context) error   { return nil }
func (f *export) Mountproc3Null(context.Context) error { return nil }

func (f *export) Mountproc3Mnt(_ context.Context, dir nfs3.Dirpath) (nfs3.Mountres3, error) {
	if dir != "/files" {
		return nfs3.NewMountres3Default(nfs3.MNT3ERR_NOENT), nil
	}
	return nfs3.NewMountres3Mountinfo(nfs3.Mountres3Ok{Fhandle: []byte("."), AuthFlavors: []int32{1}}), nil
}

func (f *export) Mountproc3Umnt(context.Context, nfs3.Dirpath) error { return nil }

func (f *export) Mountproc3Export(context.Context) (nfs3.Exports, error) {
	return &nfs3.Exportnode{ExDir: "/files"}, nil
}

func (f *export) Nfsproc3Fsinfo(context.Context, nfs3.FSINFO3args) (nfs3.FSINFO3res, error) {
	return nfs3.NewFSINFO3resResok(nfs3.FSINFO3resok{ObjAttributes: f.postOp("."), Rtmax: 4096, Rtpref: 4096, Maxfilesize: 1 << 30}), nil
}

func (f *export) Nfsproc3Getattr(_ context.Context, a nfs3.GETATTR3args) (nfs3.GETATTR3res, error) {
	if !f.has(string(a.Object)) {
		return nfs3.NewGETATTR3resDefault(nfs3.NFS3ERR_STALE), nil
	}
	return nfs3.NewGETATTR3resObjAttributes(f.attributes(string(a.Object))), nil
}

func (f *export) Nfsproc3Lookup(_ context.Context, a nfs3.LOOKUP3args) (nfs3.LOOKUP3res, error) {
	name := string(a.What.Name)
	if !f.has(name) {
		return nfs3.NewLOOKUP3resDirAttributes(nfs3.NFS3ERR_NOENT, f.postOp(".")), nil
	}
	return nfs3.NewLOOKUP3resResok(nfs3.LOOKUP3resok{Object: []byte(name), ObjAttributes: f.postOp(name), DirAttributes: f.postOp(".")}), nil
}

func (f *export) Nfsproc3Read(_ context.Context, a nfs3.READ3args) (nfs3.READ3res, error) {
	data, ok := f.data[string(a.File)]
	if !ok {
		return nfs3.NewREAD3resFileAttributes(nfs3.NFS3ERR_STALE, nfs3.NewPostOpAttrFalse()), nil
	}
	lo := min(int(a.Offset), len(data))
	hi := min(lo+int(a.Count), len(data))
	return nfs3.NewREAD3resResok(nfs3.READ3resok{FileAttributes: f.postOp(string(a.File)), Count: nfs3.Count3(hi - lo),
		Eof: hi == len(data), Data: []byte(data[lo:hi])}), nil
}

// Nfsproc3Readdirplus lists from a cookie on, which is an index of names, what
// fits the caller's buffer.
func (f *export) Nfsproc3Readdirplus(_ context.Context, a nfs3.READDIRPLUS3args) (nfs3.READDIRPLUS3res, error) {
	res := nfs3.READDIRPLUS3resok{DirAttributes: f.postOp(".")}
	end := &res.Reply.Entries
	size := 200
	i := int(a.Cookie)
	for ; i < len(f.names); i++ {
		name := f.names[i]
		if size += 140 + 2*len(name); size > int(a.Maxcount) {
			break
		}
		*end = &nfs3.Entryplus3{Fileid: nfs3.Fileid3(1 + i), Name: nfs3.Filename3(name), Cookie: nfs3.Cookie3(1 + i),
			NameAttributes: f.postOp(name), NameHandle: nfs3.NewPostOpFh3Handle([]byte(name))}
		end = &(*end).Nextentry
	}
	res.Reply.Eof = i == len(f.names)
	return nfs3.NewREADDIRPLUS3resResok(res), nil
}

// A foreign client finds our server by its own portmapper client, mounts it,
// lists the folder in several READDIRPLUS and reads a file.
func TestForeignClient(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	servePortmap(t)
	f := newExport(100)
	s := rpc.NewServer(rpc.ServerConfig{})
	t.Cleanup(func() { s.Close() })
	nfs3.RegisterNfsProgramNfsV3(s, f)
	nfs3.RegisterMountProgramMountV3(s, f)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(ln)
	pm, err := portmap.Local(t.Context())
	require.NoError(t, err)
	defer pm.Close()
	addr := portmap.WildcardUaddr("tcp", uint16(ln.Addr().(*net.TCPAddr).Port))
	for _, prog := range []uint32{nfs3.NFS_PROGRAM, nfs3.MOUNT_PROGRAM} {
		require.NoError(t, pm.Set(t.Context(), portmap.Registration{Prog: prog, Vers: 3, Netid: "tcp", Addr: addr}))
	}

	mount, err := foreign.DialMount("127.0.0.1", time.Minute)
	require.NoError(t, err)
	defer mount.Close()
	auth := foreignrpc.NewAuthUnix("localhost", 1, 1)
	_, err = mount.Mount("/none", auth.Auth())
	require.ErrorContains(t, err, "MNT3ERR_NOENT")
	target, err := mount.Mount("/files", auth.Auth())
	require.NoError(t, err)
	defer target.Close()
	entries, err := target.ReadDirPlus(".")
	require.NoError(t, err)
	sizes := map[string]int64{}
	for _, e := range entries {
		sizes[e.FileName] = e.Size()
	}
	require.Len(t, sizes, 100)
	for name, data := range f.data {
		require.Equal(t, int64(len(data)), sizes[name], name)
	}
	file, err := target.Open("file-099")
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, f.data["file-099"], string(text))
	_, _, err = target.Lookup("nothing")
	require.Error(t, err)
	require.NoError(t, mount.Unmount())
}
