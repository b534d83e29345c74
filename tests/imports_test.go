// Package tests holds what the packages promise each other.
package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "starfish"

// levels are the layers from the bottom up. A package imports packages of its
// own level, where aside lists that, or of one below, and never one above. A
// directory that is not named here has the level of the nearest named one above it.
var levels = [][]string{
	{"xdr", "query", "vector", "rpcgen", "cgo", "machine", "fault", "disk", "idset"},
	{"rpc", "store", "catalog"},
	{"router", "structs", "portmap", "catalog/local", "catalog/etcd", "monitor"},
	{"peer", "rows", "fault/wire", "node"},
	{"master/delegate", "master/health", "master/replica", "client"},
	{"slave", "master"},
	{"cmd", "examples", "tests", "quick"}, // quick: what the documents say to try
}

// aside are the imports within one level, each with its reason. Those from a
// directory to one above or below it, and those between programs and tests, need
// none.
var aside = map[string]string{
	"peer > rows":       "typed calls of slaves take and give rows",
	"peer > fault/wire": "and failures, which it reads off the wire",
}

// doors are dependencies that few packages may know: the rest goes through them.
var doors = []struct {
	path    string // import path, or its beginning
	through []string
	why     string
}{
	{"github.com/RoaringBitmap/", []string{"vector"},
		"a bitmap is a vector.Bitmap everywhere else, so that roaring can be replaced and its input is always validated"},
	{"go.etcd.io/bbolt", []string{"disk", "store", "catalog/local"},
		"only the two stores on disk know their file format, and disk how a file is opened"},
	{"go.etcd.io/etcd", []string{"catalog/etcd"},
		"the master works against catalog.Catalog, and slaves do not link etcd"},
	{"github.com/prometheus/", []string{"monitor"},
		"a program says what it counts, and monitor how that is shown"},
	{"database/sql", []string{"vector"},
		"where a slave's rows come from is vector's business"},
	{"C", []string{"cgo"},
		"everything outside cgo/ builds with CGO_ENABLED=0"},
	{"github.com/spf13/", []string{"cmd"},
		"flags are read by main alone, which fills a Config"},
	{"github.com/schollz/progressbar", []string{"cmd"},
		"only main talks to a terminal"},
	{"github.com/rasky/go-xdr", []string{"tests", "cgo"},
		"it is an oracle for tests: it allocates without bound and recurses on lists"},
	{"github.com/willscott/go-nfs-client", []string{"tests", "cgo"},
		"it is an oracle for tests: its client panics on denied replies"},
}

// apart are packages of which none imports another: each declares what it needs of
// the others, and the one above wires them.
var apart = [][]string{
	{"master/delegate", "master/health", "master/replica"},
}

// outside says what else than the standard library and itself a package may
// import, where that is bounded; its tests may import more.
var outside = map[string][]string{
	"xdr":         {},
	"query":       {},
	"rpcgen":      {},
	"vector/fold": {},
	"machine":     {},
	"fault":       {},
	"rpc":         {module + "/xdr", "golang.org/x/net", "golang.org/x/sys"},
}

// links says what a package may bring into a program, by way of whatever it
// imports: of our packages and of other modules these and no more, and of the
// standard library all but those named.
var links = []struct {
	path   string
	ours   []string // besides itself
	others []string // import paths, or their beginnings
	not    []string // of the standard library
	why    string
}{
	{"client",
		[]string{"fault", "fault/wire", "portmap", "rows", "rpc", "structs", "vector", "xdr"},
		[]string{"github.com/RoaringBitmap/roaring/v2", "github.com/bits-and-blooms/bitset", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/time/rate"},
		nil,
		"a program that asks a cluster has no use for what keeps vectors on disk, or runs a daemon"},
	{"router",
		[]string{"catalog", "machine", "query"},
		[]string{"github.com/cespare/xxhash/v2", "github.com/tidwall/btree"},
		[]string{"crypto/tls"},
		"a plan is a pure function of snapshot, query and chance: it knows no message and no connection"},
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestImports(t *testing.T) {
	dependOnSources(t)
	pkgs := list(t)
	require.NotEmpty(t, pkgs)
	for _, p := range pkgs {
		for _, fault := range faults(p) {
			t.Error(fault)
		}
	}
}

// dependOnSources looks at every Go file, so that a cached result of this test,
// which go list reads the files for, is not taken for one about changed files.
func dependOnSources(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
	require.NoError(t, err)
}

// list reads every package of the module, for each set of build constraints
// that selects other files.
func list(t *testing.T) []pkg {
	var pkgs []pkg
	for _, cgo := range []string{"0", "1"} {
		cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED="+cgo)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", stderr.String())
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p pkg
			err := d.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			pkgs = append(pkgs, p)
		}
	}
	return pkgs
}

// faults are the imports that p must not have, each with the reason.
func faults(p pkg) []string {
	var found []string
	from := strings.TrimPrefix(p.ImportPath, module+"/")
	level := levelOf(from)
	if level < 0 {
		return []string{fmt.Sprintf("%s: the directory has no level; add it to levels in imports_test.go", from)}
	}
	tests := slices.Concat(p.TestImports, p.XTestImports)
	for _, imp := range slices.Concat(p.Imports, tests) {
		inTest := !slices.Contains(p.Imports, imp)
		if to, ours := strings.CutPrefix(imp, module+"/"); ours {
			at := levelOf(to)
			_, listed := aside[from+" > "+to]
			if at == level && at < len(levels)-1 && !inTest && !listed && !under(from, to) && !under(to, from) {
				found = append(found, fmt.Sprintf("%s imports %s of its own level: list it in aside in imports_test.go with its reason, or move one of them", from, to))
			}
			// Tests may use the helpers under tests/.
			if at > level && !(inTest && under(to, "tests")) {
				found = append(found, fmt.Sprintf("%s imports %s, which is above it: imports go down only (%s > %s)",
					from, to, strings.Join(levels[at], " "), strings.Join(levels[level], " ")))
			}
		}
		for _, rooms := range apart {
			to := strings.TrimPrefix(imp, module+"/")
			if to != from && slices.Contains(rooms, from) && slices.Contains(rooms, to) {
				found = append(found, fmt.Sprintf("%s imports %s: of %s none knows another, each declares what it needs", from, to, strings.Join(rooms, ", ")))
			}
		}
		for _, d := range doors {
			if under(imp, d.path) && !inTest && !slices.ContainsFunc(d.through, func(dir string) bool { return under(from, dir) }) {
				found = append(found, fmt.Sprintf("%s imports %s, which only %s may: %s", from, imp, strings.Join(d.through, " and "), d.why))
			}
		}
		if allowed, bounded := outside[from]; bounded && !inTest && !standard(imp) &&
			!slices.ContainsFunc(allowed, func(dir string) bool { return under(imp, dir) }) {
			found = append(found, fmt.Sprintf("%s imports %s: beside the standard library it may import only %q, so that it can be used on its own", from, imp, allowed))
		}
	}
	return found
}

func TestLinks(t *testing.T) {
	dependOnSources(t)
	for _, l := range links {
		t.Run(l.path, func(t *testing.T) {
			out, err := exec.Command("go", "list", "-deps", "-f", "{{if .Standard}}std {{else}}our {{end}}{{.ImportPath}}", module+"/"+l.path).Output()
			require.NoError(t, err)
			var ours, others, std []string
			for line := range strings.Lines(string(out)) {
				kind, path, _ := strings.Cut(strings.TrimSpace(line), " ")
				dir, isOurs := strings.CutPrefix(path, module+"/")
				switch {
				case kind == "std":
					std = append(std, path)
				case isOurs && dir != l.path:
					ours = append(ours, dir)
				case !isOurs && !slices.ContainsFunc(l.others, func(of string) bool { return under(path, of) }):
					others = append(others, path)
				}
			}
			require.ElementsMatch(t, l.ours, ours, l.why)
			require.Empty(t, others, l.why)
			require.NotEmpty(t, std)
			for _, path := range l.not {
				require.NotContains(t, std, path, l.why)
			}
		})
	}
}

// levelOf is the index in levels of the directory, or of the nearest above it.
func levelOf(dir string) int {
	best, length := -1, -1
	for i, level := range levels {
		for _, d := range level {
			if under(dir, d) && len(d) > length {
				best, length = i, len(d)
			}
		}
	}
	return best
}

// under tells whether path is dir or below it.
func under(path, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// standard tells whether an import is of the standard library, whose paths have
// no dot in their first element.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return first != module && !strings.Contains(first, ".")
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		p    pkg
		want string // "" for none
	}{
		{"down is allowed", pkg{ImportPath: "starfish/rpc", Imports: []string{"starfish/xdr", "golang.org/x/sys/unix", "net"}}, ""},
		{"up is not", pkg{ImportPath: "starfish/xdr", Imports: []string{"starfish/rpc"}}, "above it"},
		{"a subdirectory has its parent's level", pkg{ImportPath: "starfish/portmap/sub", Imports: []string{"starfish/master"}}, "above it"},
		{"the rooms of a master are apart", pkg{ImportPath: "starfish/master/delegate", Imports: []string{"starfish/master/health"}}, "none knows another"},
		{"the front door wires them", pkg{ImportPath: "starfish/master", Imports: []string{"starfish/master/health"}}, ""},
		{"catalog does not know its implementation", pkg{ImportPath: "starfish/catalog", Imports: []string{"starfish/catalog/local"}}, "above it"},
		{"aside is not", pkg{ImportPath: "starfish/master", Imports: []string{"starfish/slave"}}, "own level"},
		{"but to a part of itself", pkg{ImportPath: "starfish/node/memnet", Imports: []string{"starfish/node"}}, ""},
		{"prometheus has one door", pkg{ImportPath: "starfish/cmd/portmap", Imports: []string{"github.com/prometheus/client_golang/prometheus"}}, "only monitor may"},
		{"roaring has one door", pkg{ImportPath: "starfish/slave", Imports: []string{"github.com/RoaringBitmap/roaring/v2"}}, "only vector may"},
		{"which tests may use", pkg{ImportPath: "starfish/slave", TestImports: []string{"github.com/RoaringBitmap/roaring/v2"}}, ""},
		{"oracles stay in tests", pkg{ImportPath: "starfish/xdr", Imports: []string{"github.com/rasky/go-xdr/xdr2"}}, "oracle"},
		{"the codec is standard library only", pkg{ImportPath: "starfish/xdr", Imports: []string{"golang.org/x/exp/slices"}}, "standard library"},
		{"and knows no sibling", pkg{ImportPath: "starfish/xdr", Imports: []string{"starfish/query"}}, "on its own"},
		{"tests use helpers", pkg{ImportPath: "starfish/rpc", XTestImports: []string{"starfish/tests/netns"}}, ""},
		{"but the product does not", pkg{ImportPath: "starfish/rpc", Imports: []string{"starfish/tests/netns"}}, "above it"},
		{"a new directory needs a level", pkg{ImportPath: "starfish/util"}, "no level"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(faults(c.p), "\n")
			if c.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, c.want)
			}
		})
	}
}
