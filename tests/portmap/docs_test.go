package portmap

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"starfish/portmap"
	"starfish/tests/cpeer"
)

// docs/operations.md names every flag, every metric and every bound, as they
// are.
func TestOperationsDocument(t *testing.T) {
	if !enter(t) {
		return
	}
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	doc := string(text)
	section := func(title string) string {
		_, rest, ok := strings.Cut(doc, "\n"+title+"\n")
		require.True(t, ok, title)
		level, _, _ := strings.Cut(title, " ")
		rest, _, _ = strings.Cut(rest, "\n"+level+" ")
		return rest
	}

	long := regexp.MustCompile(`--[a-z-]+`)
	flags := section("### Flags")
	help := result(program("portmap"), "--help")
	_, help, _ = strings.Cut(help, "\nFlags:\n")
	for line := range strings.Lines(help) {
		if flag := long.FindString(line); flag != "" && flag != "--help" {
			require.Regexp(t, "[`,] ?"+flag+"\\b", flags)
		}
	}
	for _, m := range regexp.MustCompile("(--[a-z-]+)[^`]*` \\|").FindAllStringSubmatch(flags, -1) {
		require.Contains(t, help, m[1])
	}

	limits := section("## Limits")
	for _, want := range []string{
		fmt.Sprintf("%d KiB; more ends", portmap.MaxRecord>>10),
		fmt.Sprintf("| %d MiB |", portmap.MaxReply>>20),
		fmt.Sprintf("8,%d bytes; to another host %d times", portmap.MaxDatagram%1000, portmap.MaxAmplification),
		fmt.Sprintf("65,%d, and %d MiB", portmap.MaxRegistrations%1000, portmap.MaxListBytes>>20),
		fmt.Sprintf("%d and %d bytes", portmap.MaxNetid, portmap.MaxUaddr),
		fmt.Sprintf("%d a second, %d at once (`--rate`); 8,%d hosts", portmap.DefaultRate, portmap.DefaultBurst, portmap.MaxSources%1000),
		fmt.Sprintf("GETSTAT | %d;", portmap.MaxStats),
		fmt.Sprintf("answers of %d KiB", portmap.LongAnswer>>10),
		fmt.Sprintf("%d MiB at once and %d MiB a second", portmap.LongBytes>>20, portmap.LongRate>>20),
		fmt.Sprintf("and %d more with `-r`", portmap.MaxForwards),
		fmt.Sprintf("%d, each for %d s", portmap.MaxForwards, portmap.ForwardTimeout/time.Second),
	} {
		require.Contains(t, limits, want)
	}
	for _, reason := range portmap.Reasons {
		require.Contains(t, section("### Log and metrics"), reason)
	}
	session(t, doc)
}

// session types the shell sessions of a document: what follows a command is
// what it prints.
func session(t *testing.T, doc string) {
	var p *cpeer.Process
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		for _, typed := range strings.Split(block[1], "$ ")[1:] {
			command, want, _ := strings.Cut(typed, "\n")
			switch args, background := strings.CutSuffix(command, " &"); {
			case background:
				args := strings.Fields(args)
				require.Equal(t, "bin/portmap", args[0])
				require.Equal(t, "...\nready\n", want)
				p = startOurs(t, args[1:]...)
				p.WaitFor(t, "\nready\n", timeout)
			case strings.HasPrefix(command, "kill"):
				stop(t, p)
			default:
				require.Equal(t, want, result("/bin/sh", "-c", "PATH=$PATH:/usr/sbin; "+command), command)
			}
		}
	}
	require.NotNil(t, p)
}
