package codec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpcgen"
	"starfish/tests/codec/workspace"
	"starfish/tests/cpeer"
)

// debianFile is an .x file of a Debian package. Neither it nor what comes of it
// is in the repository.
type debianFile struct {
	x       string
	imports []string // of other files here; "tirpc" is testdata/tirpc.x
}

const (
	rpcsvc   = "/usr/include/rpcsvc/"
	tirpcDir = "/usr/include/tirpc/"
)

// debian are all files of rpcsvc-proto and libtirpc-dev.
var debian = []debianFile{
	{rpcsvc + "bootparam_prot.x", nil},
	{rpcsvc + "key_prot.x", []string{"tirpc"}},
	{rpcsvc + "klm_prot.x", []string{"tirpc"}},
	{rpcsvc + "mount.x", nil},
	{rpcsvc + "nfs_prot.x", nil},
	{rpcsvc + "nis_object.x", []string{"tirpc"}},
	{rpcsvc + "nis.x", []string{"tirpc"}},
	{rpcsvc + "nis_callback.x", []string{"tirpc", "nis"}},
	{rpcsvc + "nlm_prot.x", []string{"tirpc"}},
	{rpcsvc + "rex.x", nil},
	{rpcsvc + "rquota.x", nil},
	{rpcsvc + "rstat.x", nil},
	{rpcsvc + "rusers.x", nil},
	{rpcsvc + "sm_inter.x", nil},
	{rpcsvc + "spray.x", nil},
	{rpcsvc + "yp.x", nil},
	{rpcsvc + "yppasswd.x", nil},
	{tirpcDir + "rpcsvc/crypt.x", nil},
	{tirpcDir + "rpc/rpcb_prot.x", []string{"tirpc"}},
}

func (d debianFile) present() bool {
	_, err := os.Stat(d.x)
	return err == nil
}

// base is the name of the file's package in a workspace.
func (d debianFile) base() string { return strings.TrimSuffix(filepath.Base(d.x), ".x") }

func (d debianFile) pkg() string { return workspace.Module + "/" + d.base() }

// generate compiles the file, with -import of what it takes from elsewhere.
func (d debianFile) generate(t *testing.T, space *workspace.Space) []rpcgen.Output {
	t.Helper()
	var imports []rpcgen.Import
	for _, name := range d.imports {
		x := rpcsvc + name + ".x"
		if name == "tirpc" {
			x = "testdata/tirpc.x"
			space.Rpcgen(t, "tirpc", rpcgen.Options{File: x})
		}
		imports = append(imports, rpcgen.Import{File: x, Package: workspace.Module + "/" + name})
	}
	return space.Rpcgen(t, d.base(), rpcgen.Options{File: d.x, Imports: imports})
}

// Every .x file that Debian ships compiles, and what comes of it builds and is
// vetted; a type that only a C header brings is an error that says so.
func TestDebian(t *testing.T) {
	space := workspace.New(t)
	for _, d := range debian {
		if !d.present() {
			cpeer.Unavailable(t, "%s is missing (apt install rpcsvc-proto libtirpc-dev)", d.x)
		}
		d.generate(t, space)
		src, err := os.ReadFile(d.x)
		require.NoError(t, err)
		_, err = rpcgen.Generate(rpcgen.Options{File: d.x, Source: string(src)})
		if d.imports == nil {
			require.NoError(t, err, d.x)
		} else {
			require.ErrorContains(t, err, "-import FILE.x, with its declaration, supplies it", d.x)
		}
	}
	space.Go(t, "build", "./...")
	space.Go(t, "vet", "./...")
	shipped, err := filepath.Glob(rpcsvc + "*.x")
	require.NoError(t, err)
	more, err := filepath.Glob(tirpcDir + "*/*.x")
	require.NoError(t, err)
	require.Len(t, debian, len(shipped)+len(more), "Debian ships other files than those listed")
}
