package main

import (
	"io"

	"github.com/spf13/cobra"

	"starfish/cmd/internal/release"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    `version prints the version of this program; 'starfish status' shows the master's.`,
		Example: `  starfish version`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), release.Line("starfish", version))
			return err
		},
	}
}
