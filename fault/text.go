package fault

import (
	"fmt"
	"strings"
)

// Vectors writes the first ids for a message: ids, the first of total.
func Vectors(ids []uint64, total uint64) string {
	const shown = 10
	var b strings.Builder
	b.WriteString("vector")
	if total != 1 {
		b.WriteString("s")
	}
	b.WriteString(" ")
	for i, id := range ids[:min(len(ids), shown)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, id)
	}
	if total > shown {
		fmt.Fprintf(&b, ", ... (%d in all)", total)
	}
	return b.String()
}

// SaidOf is what a machine says of another one that it could not use: with its
// name before it, which stands beside it where this is shown.
func SaidOf(machine, message string) string {
	message = strings.TrimPrefix(message, machine+": ")
	return strings.TrimPrefix(message, machine+" ")
}
