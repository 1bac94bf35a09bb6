#!/bin/sh
# Runs the tests whose names contain Crash, at full length. A run that finds none fails: it has shown nothing.
set -eu
GO=${GO:-go}

list=$($GO test -list 'Crash' ./...)
pkgs=$(printf '%s\n' "$list" | awk '
	/^Test/ { n++ }
	/^ok/   { if (n) print $2; n = 0 }')
if [ -z "$pkgs" ]; then
	echo "make crash: no test is named Crash: nothing was run and nothing was shown" >&2
	exit 1
fi
# shellcheck disable=SC2086 # package paths have no spaces
exec $GO test -count=1 -timeout 60m -v -run 'Crash' $pkgs
