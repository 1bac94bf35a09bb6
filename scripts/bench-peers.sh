#!/bin/sh
# Compares the binary with other archivers as whole processes: time, size, memory. Those that are not installed are
# named and left out. Operands are flags of scripts/bench, such as -quick, -filter REGEXP or -o FILE.
set -eu
GO=${GO:-go}
LOCKBOX=${LOCKBOX:-bin/lockbox}

if [ ! -x "$LOCKBOX" ]; then
	echo "bench-peers: there is no $LOCKBOX; make build makes it" >&2
	exit 1
fi
for tool in zip unzip tar zstd 7z mksquashfs unsquashfs wimlib-imagex sqlite3 restic; do
	command -v "$tool" >/dev/null 2>&1 || echo "bench-peers: $tool is not installed, so nothing is compared with it" >&2
done
exec "$GO" run ./scripts/bench -lockbox "$LOCKBOX" -section commands,memory "$@"
