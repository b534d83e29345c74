// Package release says what --version prints, the same of all our programs.
package release

import (
	"fmt"
	"runtime"
)

// Line is "PROGRAM VERSION GOVERSION OS/ARCH" and a newline.
func Line(program, version string) string {
	return fmt.Sprintf("%s %s %s %s/%s\n", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
