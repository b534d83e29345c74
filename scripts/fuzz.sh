#!/usr/bin/env bash
# Runs every fuzz target for TIME each, all of them, and fails when one found
# an input that fails.
#
#   scripts/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${1:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()

for package in $("$go" list ./...); do
	for target in $("$go" test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "fuzz: $package $target"
		if "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" 2>&1 | tee "$log"; then
			continue
		fi
		# Go's fuzzer at times takes the end of its own time for a failure.
		if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
			echo "fuzz: $target: time was up, nothing was found"
			continue
		fi
		failed+=("$package $target")
	done
done
if [ ${#failed[@]} != 0 ]; then
	printf 'fuzz: failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
