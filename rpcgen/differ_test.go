package rpcgen_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpcgen"
	"starfish/tests/cpeer"
)

// What C rpcgen takes, this one takes, and its code type-checks.
func TestTakesWhatCTakes(t *testing.T) {
	cpeer.Require(t, "rpcgen", "cpp")
	const files = 150
	dir, refused := t.TempDir(), 0
	for seed := range uint64(files) {
		src := randomFile(rand.New(rand.NewPCG(seed, 1)), false)
		if fault := refusedByC(t, dir, src, "-N", "-C"); fault != "" {
			t.Logf("seed %d: C refuses\n%s\n%s", seed, fault, src)
			refused++
			continue
		}
		outs, err := rpcgen.Generate(rpcgen.Options{File: "random.x", Source: src})
		require.NoError(t, err, "seed %d\n%s", seed, src)
		typecheck(t, outs)
	}
	require.Less(t, refused, files/20, "too many for this to say anything")
}

// refusedByC returns what C rpcgen says when it writes a header, a codec and
// clients of src, "" where it does so.
func refusedByC(t *testing.T, dir, src string, flags ...string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "random.x"), []byte(src), 0o644))
	for _, what := range []string{"-h", "-c", "-l"} {
		cmd := exec.Command("rpcgen", append(flags, what, "random.x")...)
		cmd.Dir = dir
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			return cmp.Or(said.String(), err.Error())
		}
	}
	return ""
}

// FuzzFiles compiles files that mean something: no error, and Go that type-checks.
func FuzzFiles(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		src := randomFile(rand.New(rand.NewPCG(seed, 2)), true)
		outs, err := rpcgen.Generate(rpcgen.Options{File: "random.x", Source: src})
		require.NoError(t, err, "%s", src)
		typecheck(t, outs)
	})
}
