package codec

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/tests/codec/workspace"
	"starfish/tests/cpeer"
)

var (
	block     = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	titled    = regexp.MustCompile(`^/[/*] ([\w./]+)(?: \*/)?\n`)
	printed   = regexp.MustCompile("(?m)^prints `(.*)`")
	generates = regexp.MustCompile(`(?m)^go run (starfish/cmd/rpcgen .*)$`)
)

// What docs/rpcgen.md shows is run: its .x file is compiled by the command that
// stands there, its programs are built and say what it says.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/rpcgen.md")
	require.NoError(t, err)
	space := workspace.NewModule(t, "example")
	files := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if name := titled.FindStringSubmatch(m[2]); name != nil {
			files[name[1]] = space.Write(t, name[1], []byte(m[2]))
		}
	}
	require.Len(t, files, 5)

	command := generates.FindStringSubmatch(string(text))
	require.NotNil(t, command)
	space.Go(t, append([]string{"run"}, strings.Fields(command[1])...)...)
	space.Go(t, "vet", "./...")
	cpeer.Start(t, exec.Command(space.Build(t, "server"))).WaitFor(t, "serving", patience)
	require.Equal(t, printed.FindStringSubmatch(string(text))[1]+"\n", run(t, space.Build(t, "client")))

	out := run(t, space.Build(t, "value"))
	require.True(t, strings.Contains(string(text), "```\n"+out+"```\n"), "value/main.go prints\n%s", out)

	// go generate in the folder makes the same code.
	made := filepath.Join(filepath.Dir(files["counter/counter.x"]), "counter_xdr.go")
	want, err := os.ReadFile(made)
	require.NoError(t, err)
	require.NoError(t, os.Remove(made))
	line := regexp.MustCompile(`(?m)^//go:generate .*$`).FindString(string(text))
	space.Write(t, "counter/doc.go", []byte("package counter\n\n"+line+"\n"))
	space.Go(t, "generate", "./...")
	again, err := os.ReadFile(made)
	require.NoError(t, err)
	require.Equal(t, string(want), string(again))

	cmd := exec.Command("go", "run", "starfish/cmd/rpcgen", "wrong.x")
	space.Prepare(cmd)
	faults, err := cmd.CombinedOutput()
	require.Error(t, err)
	said := strings.TrimSuffix(string(faults), "exit status 1\n")
	require.True(t, strings.Contains(string(text), "```\n"+said+"```\n"), "rpcgen says of wrong.x\n%s", said)
}

// run runs a program to its end.
func run(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command(name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
