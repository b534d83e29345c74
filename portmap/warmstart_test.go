package portmap

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A portmapper that starts again has the registrations and owners of before.
func TestWarmStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rpcbind.xdr")
	cfg := Config{Port: -1, WarmStart: file}
	first, stop := start(t, cfg)
	kept := Registration{testProg, 1, "tcp", "0.0.0.0.80.0", "1000"}
	require.True(t, first.reg.set(kept, false))
	require.True(t, first.reg.set(Registration{testProg, 2, "udp", "0.0.0.0.80.1", ownerUnknown}, false))
	require.True(t, first.reg.unset(testProg, 2, ownerSuperuser))
	stop()

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.FileExists(t, filepath.Join(dir, "portmap.xdr"), "for rpcbind -w")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2, "no file is left over")

	second, stop := start(t, cfg)
	var got []Registration
	for _, r := range second.reg.all() {
		if r.Prog != PMAP_PROG {
			got = append(got, r)
		}
	}
	require.Equal(t, []Registration{kept}, got)
	require.True(t, second.reg.unset(testProg, 1, "1000"))
	stop()
	third, _ := start(t, cfg)
	_, ok := third.reg.lookup(testProg, 1, "tcp", true)
	require.False(t, ok)
}

// A change is in the file soon, and not only at the end: a portmapper may be
// killed.
func TestWarmStartSavesChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	s, _ := start(t, Config{Port: -1, WarmStart: file})
	for vers := range uint32(3) {
		r := Registration{testProg, vers, "tcp", "0.0.0.0.80.0", "1000"}
		require.True(t, s.reg.set(r, false))
		require.Eventually(t, func() bool {
			list, err := readRegistrations(file)
			return err == nil && len(list) > 0 && list[len(list)-1] == r
		}, peerTimeout, 5*time.Millisecond)
	}
	require.NoFileExists(t, filepath.Join(filepath.Dir(file), "portmap.xdr"))
}

func TestWarmStartFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		return path
	}
	reg := newRegistry()
	reg.set(Registration{testProg, 1, "tcp", "0.0.0.0.80.0", "1000"}, false)
	whole, err := AppendRpcblistPtr(nil, reg.dump().rpcb)
	require.NoError(t, err)
	for name, path := range map[string]string{
		"Missing":   filepath.Join(dir, "none"),
		"Empty":     write("empty", nil),
		"Cut":       write("cut", whole[:len(whole)-5]),
		"Longer":    write("longer", append(whole[:len(whole):len(whole)], 0, 0, 0, 0)),
		"HugeName":  write("huge", []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x3f, 0xff, 0xff, 0xff}),
		"Directory": dir,
		"Device":    "/dev/zero",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readRegistrations(path)
			require.Error(t, err)
		})
	}
	list, err := readRegistrations(write("whole", whole))
	require.NoError(t, err)
	require.Equal(t, reg.all(), list)

	// A file of nonsense does not keep the portmapper from starting.
	start(t, Config{Port: -1, WarmStart: write("nonsense", []byte("nonsense"))})

	s, err := New(Config{Port: -1, WarmStart: filepath.Join(dir, "none", "state")})
	require.NoError(t, err)
	require.ErrorContains(t, s.Run(context.Background()), "no file can be made beside")
}

// FuzzWarmStart reads any bytes as a warm start file: what is read is what a
// portmapper would register, and is written as it was.
func FuzzWarmStart(f *testing.F) {
	reg := newRegistry()
	reg.set(Registration{testProg, 1, "tcp", "0.0.0.0.80.0", "1000"}, false)
	reg.set(Registration{testProg, 1, "local", "/run/x", ownerSuperuser}, false)
	whole, err := AppendRpcblistPtr(nil, reg.dump().rpcb)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)-4])
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x3f, 0xff, 0xff, 0xff})
	path := filepath.Join(f.TempDir(), "state")
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		list, err := readRegistrations(path)
		if err != nil {
			return
		}
		r := newRegistry()
		for _, m := range list {
			r.set(m, false)
		}
		w := warmStart{path: path, reg: r}
		require.NoError(t, w.save())
		again, err := readRegistrations(path)
		require.NoError(t, err)
		if len(again) > 0 || len(r.all()) > 0 {
			require.Equal(t, r.all(), again)
		}
	})
}
