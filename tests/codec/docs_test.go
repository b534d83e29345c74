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
	require.Len(t, files, 8)

	command := generates.FindStringSubmatch(string(text))
	require.NotNil(t, command)
	space.Go(t, append([]string{"run"}, strings.Fields(command[1])...)...)
	rpcgenOfDebian(t, space, string(text))
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

// rpcgenOfDebian runs the commands that compile files of Debian.
func rpcgenOfDebian(t *testing.T, space *workspace.Space, text string) {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^rpcgen (-o .*)$`).FindAllStringSubmatch(text, -1)
	require.Len(t, lines, 4)
	for _, line := range lines {
		if strings.Contains(line[1], rpcsvc) && !debian[0].present() {
			continue // rpcsvc-proto is missing
		}
		space.Go(t, append([]string{"run", "starfish/cmd/rpcgen"}, strings.Fields(line[1])...)...)
	}
}

// The commands that set a module up work in an empty folder beside a checkout.
func TestDocsSetUp(t *testing.T) {
	text, err := os.ReadFile("../../docs/rpcgen.md")
	require.NoError(t, err)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	setUps := regexp.MustCompile("(?ms)^```sh\n(go mod init .*?)^```$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, setUps, 2)
	for i, commands := range setUps {
		dir := t.TempDir()
		require.NoError(t, os.Symlink(root, filepath.Join(dir, "starfish")))
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			name := titled.FindStringSubmatch(m[2])
			if name == nil || strings.HasPrefix(name[1], "tirpc") {
				continue
			}
			file := filepath.Join(dir, "example", name[1])
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(m[2]), 0o644))
		}
		cmd := exec.Command("sh", "-ec", commands[1]+"go vet ./...")
		cmd.Dir = filepath.Join(dir, "example")
		// What is needed is here already: nothing is fetched or looked up.
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GONOSUMDB=*", "PWD="+cmd.Dir)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "set-up %d\n%s", i+1, out)
	}
}

// run runs a program to its end.
func run(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command(name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
