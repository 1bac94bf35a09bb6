#!/bin/sh
# Looks the code's dependencies up in the database of known vulnerabilities, and fails when one of them can be reached
# from it. The database is on the network, or where VULNDB says (file:///path is a copy of it): nothing of the lookup
# works without one, so that it is then left out, with a line that says so.
set -u
out=$("${GO:-go}" tool govulncheck ${VULNDB:+-db "$VULNDB"} ./... 2>&1)
code=$?
case $code in
0) echo 'no known vulnerability' ;;
3) echo "$out"; exit 1 ;;
*)
	case $out in
	*'fetching vulnerabilities'* | *'vuln.go.dev'* | *'dial tcp'*)
		if [ -z "${VULNDB:-}" ]; then
			echo 'skipped: the database of vulnerabilities cannot be reached (VULNDB=file:///path names a copy)'
			exit 0
		fi ;;
	esac
	echo "$out"
	exit 1 ;;
esac
