#!/bin/sh
# The tests that interrupt commits, at full length: the sweep over simulated power cuts and faults with
# SEEDS seeds, the same with one barrier of the protocol left out at a time, and whatever else is named
# Crash. A run that finds none fails: it has shown nothing.
set -eu
GO=${GO:-go}
SEEDS=${SEEDS:-1}
STORE=./internal/store

echo "== sweep, SEEDS=$SEEDS"
$GO test -count=1 -timeout 600m -v -run '^TestCrash' $STORE -args -crash.seeds="$SEEDS"
echo '== mutants'
$GO test -count=1 -timeout 60m -v -tags mutants -run '^TestCrashMutants$' $STORE

list=$($GO test -list 'Crash' ./...)
pkgs=$(printf '%s\n' "$list" | awk '
	/^Test/ { n++ }
	/^ok/   { if (n && $2 !~ /\/internal\/store$/) print $2; n = 0 }')
if [ -n "$pkgs" ]; then
	echo '== other packages'
	# shellcheck disable=SC2086 # package paths have no spaces
	$GO test -count=1 -timeout 60m -v -run 'Crash' $pkgs
fi
