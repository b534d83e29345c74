#!/usr/bin/env bash
# Prints the structure of the tree: for each package its hand-written files and
# lines, the lines of its tests, and which packages of ours it imports; then the
# packages in floors, each above all that it imports.
#
#   scripts/map.sh [DIR]     DIR: a checkout; this one by default
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
go=${GO:-go}
module=$("$go" list -m)

# Generated code says so in its first lines (https://go.dev/s/generatedcode).
written() { # files: how many are written by hand, and their lines
	local n=0 lines=0 f
	for f in "$@"; do
		head -n 5 "$f" | grep -q '^// Code generated .* DO NOT EDIT\.$' && continue
		n=$((n + 1))
		lines=$((lines + $(wc -l <"$f")))
	done
	echo "$n $lines"
}

packages=$(mktemp)
trap 'rm -f "$packages"' EXIT
"$go" list -f '{{.ImportPath}}|{{.Dir}}|{{join .GoFiles " "}} {{join .CgoFiles " "}}|{{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}|{{join .Imports " "}}' ./... >"$packages"

printf '%-28s %5s %6s %6s  %s\n' PACKAGE FILES LINES TESTS IMPORTS
while IFS='|' read -r path dir files tests imports; do
	cd "$dir"
	# shellcheck disable=SC2086
	read -r n lines <<<"$(written $files)"
	# shellcheck disable=SC2086
	read -r _ tested <<<"$(written $tests)"
	cd - >/dev/null
	ours=$(tr ' ' '\n' <<<"$imports" | sed -n "s|^$module/||p" | paste -sd' ')
	printf '%-28s %5d %6d %6d  %s\n' "${path#"$module"/}" "$n" "$lines" "$tested" "$ours"
done <"$packages"

echo
awk -F'|' -v module="$module/" '
	{ sub(module, "", $1); name[NR] = $1; ours[$1] = 1; imports[$1] = $5 }
	END {
		do {
			moved = 0
			for (i = 1; i <= NR; i++) {
				p = name[i]
				n = split(imports[p], imp, " ")
				for (j = 1; j <= n; j++) {
					q = imp[j]
					if (sub(module, "", q) && ours[q] && floor[p] <= floor[q]) { floor[p] = floor[q] + 1; moved = 1 }
				}
				if (floor[p] > top) top = floor[p]
			}
		} while (moved)
		for (f = top; f >= 0; f--) {
			line = ""
			for (i = 1; i <= NR; i++) if (floor[name[i]] + 0 == f) line = line " " name[i]
			printf "floor %2d:%s\n", f, line
		}
	}' "$packages"
