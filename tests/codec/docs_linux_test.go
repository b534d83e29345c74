package codec

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"starfish/rpcgen"
	"starfish/tests/codec/workspace"
	"starfish/tests/cpeer"
	"starfish/tests/netns"
)

// docsEnv hands the programs that a test built to the test in its namespace.
const docsEnv = "STARFISH_TEST_DOCS"

// The whole server of docs/rpcgen.md registers, is found by a Go client and by
// C's rpcinfo over TCP and UDP in both versions, and unregisters at the end.
func TestDocsWholeServer(t *testing.T) {
	if os.Getenv(docsEnv) == "" {
		t.Setenv(docsEnv, strings.Join(buildDocs(t, "whole", "ask"), " "))
	}
	if !netns.Enter(t) {
		return
	}
	programs := strings.Fields(os.Getenv(docsEnv))
	text, err := os.ReadFile("../../docs/rpcgen.md")
	require.NoError(t, err)
	servePortmap(t)
	server := cpeer.Start(t, exec.Command(programs[0]))
	server.WaitFor(t, "ready: ", patience)
	said := regexp.MustCompile("(?m)^go run ./ask\n```\nprints `(.*)`").FindStringSubmatch(string(text))
	require.NotNil(t, said)
	require.Equal(t, said[1]+"\n", run(t, programs[1]))
	// rpcinfo wants COUNTER_PROG in decimal.
	if _, err := exec.LookPath("rpcinfo"); err == nil || cpeer.Required() {
		for _, netid := range []string{"tcp", "udp"} {
			out := output(t, cpeer.Tool(t, "rpcinfo"), "-T", netid, "127.0.0.1", "536871065")
			require.Contains(t, out, "version 1 ready and waiting")
			require.Contains(t, out, "version 2 ready and waiting")
		}
	}
	require.NoError(t, server.Signal(syscall.SIGTERM))
	require.NoError(t, server.Wait(t, patience))
	out, err := exec.Command(programs[1]).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not registered")
}

// buildDocs builds programs of docs/rpcgen.md.
func buildDocs(t *testing.T, folders ...string) (programs []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/rpcgen.md")
	require.NoError(t, err)
	space := workspace.NewModule(t, "example")
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		if name := titled.FindStringSubmatch(m[2]); name != nil {
			file := space.Write(t, name[1], []byte(m[2]))
			if name[1] == "counter/counter.x" {
				space.Rpcgen(t, "counter", rpcgen.Options{File: file})
			}
		}
	}
	for _, folder := range folders {
		programs = append(programs, space.Build(t, folder))
	}
	return programs
}
