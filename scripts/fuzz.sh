#!/usr/bin/env bash
# Runs every fuzz target for TIME each.
#
#   scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${1:-10s}

"$go" list ./... | while read -r package; do
	"$go" test -list '^Fuzz' "$package" | { grep '^Fuzz' || true; } | while read -r target; do
		echo "fuzz: $package $target"
		"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
	done
done
