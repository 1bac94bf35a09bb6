#!/bin/sh
# Runs every fuzz target of the module in turn. The list comes from the test binaries, so that a new target
# is never forgotten. Input that fails is kept by go in the package's testdata/fuzz: commit it with the fix.
# Go makes every interesting input smaller for up to a minute, and long ones of slow targets stall it: fewer tries do.
set -eu
GO=${GO:-go}
T=${T:-30s}
RUN=${RUN:-.}

# A listing prints the names of a package before the line that names the package.
list=$($GO test -list '^Fuzz' ./...)
targets=$(printf '%s\n' "$list" | awk '
	/^Fuzz/ { names[++n] = $1 }
	/^ok/   { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }' | grep -E "$RUN" || true)
if [ -z "$targets" ]; then
	echo "make fuzz: no fuzz target matches '$RUN'" >&2
	exit 1
fi

failed=
count=0
while read -r pkg name; do
	echo "== $name in $pkg for $T"
	$GO test -run '^$' -fuzz "^$name\$" -fuzztime "$T" -fuzzminimizetime 100x "$pkg" </dev/null || failed="$failed $pkg.$name"
	count=$((count + 1))
done <<LIST
$targets
LIST

if [ -n "$failed" ]; then
	echo "make fuzz: failed:$failed" >&2
	exit 1
fi
echo "make fuzz: $count targets, nothing found"
