#!/usr/bin/env bash
# Writes every generated file under ROOT: our rpcgen's stubs, C rpcgen's for
# the libtirpc binding, and the elements' index.
#
#   scripts/generate.sh ROOT
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:?usage: scripts/generate.sh ROOT}
mkdir -p "$root"/{structs,rpc,portmap,tests/codec/{sample,nfs3},cgo/tirpc,examples/elements}

# Alone: the other commands may not build before this has run.
CGO_ENABLED=0 "${GO:-go}" build -trimpath -o bin/ ./cmd/rpcgen
bin/rpcgen -o "$root/structs" -p structs structs.x
bin/rpcgen -o "$root/rpc" -p rpc rpc/rpc_msg.x
bin/rpcgen -o "$root/portmap" -p portmap portmap/pmap_prot.x
bin/rpcgen -o "$root/portmap" -p portmap portmap/rpcb_prot.x
bin/rpcgen -o "$root/tests/codec/sample" -p sample tests/codec/sample/sample.x
bin/rpcgen -o "$root/tests/codec/nfs3" -p nfs3 tests/codec/nfs3/nfs3.x

if command -v rpcgen >/dev/null; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	cp structs.x "$tmp/"
	(cd "$tmp" && rpcgen -C -h -o structs.h structs.x && rpcgen -C -c -o structs_xdr.c structs.x)
	cp "$tmp/structs.h" "$tmp/structs_xdr.c" "$root/cgo/tirpc/"
else
	echo "generate: C rpcgen is missing (apt-get install rpcsvc-proto): cgo/tirpc left as it is" >&2
fi

"${GO:-go}" run ./examples/elements <examples/elements/elements.csv >"$root/examples/elements/elements.index.new"
mv "$root/examples/elements/elements.index.new" "$root/examples/elements/elements.index"
