// Package cpeer builds and finds the C programs that tests talk to: rpcgen's
// stubs compiled with gcc against libtirpc, and the tools of rpcbind.
//
// A peer that is missing skips the test at a desk and fails it where
// INTEROP=require, so that a test run without the real peers is never taken
// for one with them.
package cpeer

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// compileTimeout bounds one run of rpcgen or gcc.
const compileTimeout = 2 * time.Minute

// Required tells whether a missing peer is a failure (INTEROP=require).
func Required() bool { return os.Getenv("INTEROP") == "require" }

// Unavailable ends the test because a peer is missing: a skip at a desk, a
// failure where INTEROP=require.
func Unavailable(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf("INTEROP=require: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Require ends the test unless every tool is installed. A name without a
// slash is looked up in PATH and in the sbin directories; "libtirpc" asks
// pkg-config for the library and its headers.
func Require(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if tool == "libtirpc" {
			if err := exec.Command(Tool(t, "pkg-config"), "--exists", "libtirpc").Run(); err != nil {
				Unavailable(t, "libtirpc's headers are missing (apt install libtirpc-dev)")
			}
			continue
		}
		Tool(t, tool)
	}
}

// Tool is the path of an installed program. A missing one ends the test as
// Unavailable does.
func Tool(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	Unavailable(t, "%s is not installed", name)
	return ""
}

// Stubs are the files that C rpcgen made of one .x file.
type Stubs struct {
	Dir    string // also the include directory
	Header string
	XDR    string
	Client string
	Server string // with main; "" where the file has no program
}

// Rpcgen runs C rpcgen over the file x with flags ("-C", "-N", "-M",
// "-DHANDLER_ONLY"...) and leaves its four files in dir.
func Rpcgen(t testing.TB, dir, x string, flags ...string) Stubs {
	t.Helper()
	Require(t, "rpcgen", "cpp")
	text, err := os.ReadFile(x)
	if err != nil {
		t.Fatal(err)
	}
	// rpcgen writes the name it was given into #include lines: it gets a bare one.
	base := filepath.Base(x)
	if err := os.WriteFile(filepath.Join(dir, base), text, 0o644); err != nil {
		t.Fatal(err)
	}
	stem := strings.TrimSuffix(base, ".x")
	out := func(kind, name string) string {
		args := append(append([]string{}, flags...), kind, "-o", name, base)
		path := filepath.Join(dir, name)
		_ = os.Remove(path) // rpcgen refuses to overwrite
		run(t, dir, "rpcgen", args...)
		if _, err := os.Stat(path); err != nil {
			return ""
		}
		return path
	}
	return Stubs{
		Dir:    dir,
		Header: out("-h", stem+".h"),
		XDR:    out("-c", stem+"_xdr.c"),
		Client: out("-l", stem+"_clnt.c"),
		Server: out("-m", stem+"_svc.c"),
	}
}

// ServerMain is a server skeleton with main for the transports named
// ("tcp", "udp"), which registers itself with the portmapper, as
// `rpcgen -s tcp -s udp` writes it.
func ServerMain(t testing.TB, stubs Stubs, x string, transports []string, flags ...string) string {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(x), ".x") + "_main.c"
	path := filepath.Join(stubs.Dir, name)
	_ = os.Remove(path)
	args := append([]string{}, flags...)
	for _, tr := range transports {
		args = append(args, "-s", tr)
	}
	run(t, stubs.Dir, "rpcgen", append(args, "-o", name, filepath.Base(x))...)
	return path
}

// Compile builds the C sources with libtirpc into dir/name and returns that
// path. Flags go to gcc before the sources.
func Compile(t testing.TB, dir, name string, sources []string, flags ...string) string {
	t.Helper()
	Require(t, "gcc", "pkg-config", "libtirpc")
	tirpc, err := exec.Command(Tool(t, "pkg-config"), "--cflags", "--libs", "libtirpc").Output()
	if err != nil {
		t.Fatalf("pkg-config libtirpc: %v", err)
	}
	out := filepath.Join(dir, name)
	args := append([]string{"-g", "-O1", "-I", dir, "-o", out}, flags...)
	args = append(args, sources...)
	args = append(args, strings.Fields(string(tirpc))...)
	run(t, dir, "gcc", append(args, "-lpthread")...)
	return out
}

// Source writes a C file into dir and returns its path.
func Source(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t testing.TB, dir, tool string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), compileTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, Tool(t, tool), args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", tool, strings.Join(args, " "), err, out.Bytes())
	}
}
