#!/usr/bin/env bash
# What must hold before the tests: format, vet, staticcheck, a build without
# cgo, and generated files that are what their sources make.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

echo "check: gofmt"
unformatted=$("$("$go" env GOROOT)/bin/gofmt" -l .)
if [ -n "$unformatted" ]; then
	printf 'not formatted:\n%s\n' "$unformatted" >&2
	exit 1
fi

echo "check: build without cgo"
CGO_ENABLED=0 "$go" build ./...

echo "check: vet"
"$go" vet ./...

echo "check: staticcheck"
"$go" tool staticcheck ./...

echo "check: generated files"
scripts/generate.sh "$tmp"
stale=0
while IFS= read -r -d '' file; do
	diff -u "${file#"$tmp"/}" "$file" || stale=1
done < <(find "$tmp" -type f -print0)
if [ "$stale" != 0 ]; then
	echo "check: generated files are stale: make generate" >&2
	exit 1
fi
echo "check: all fine"
