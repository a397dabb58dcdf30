#!/bin/sh
# exports.sh CC INCLUDE FILE: FILE, a version script or a shared library, names exactly the functions that kvferry.h
# declares; a library has each under a KVFERRY_ version.
set -eu
cc=$1 include=$2 file=$3

declared=$("$cc" -E -P "$include/kvferry/kvferry.h" | tr '\n' ' ' |
    grep -oE 'visibility\("default"\)\)\)[^;(]*kvf_[a-z0-9_]+ *\(' | grep -oE 'kvf_[a-z0-9_]+' | sort)

case $file in
*.map) found=$(sed 's/#.*//' "$file" | grep -oE '[A-Za-z0-9_]+;' | grep -v '^KVFERRY_' | tr -d ';' | sort) ;;
*) # A version itself is an absolute symbol.
    found=$(nm -D --defined-only --with-symbol-versions "$file" | awk '$2 != "A" {print $3}' |
        sed 's/@@KVFERRY_[0-9.]*$//' | sort) ;;
esac

[ -n "$declared" ] || { echo "no declarations found in kvferry.h" >&2; exit 1; }
if [ "$declared" != "$found" ]; then
    echo "kvferry.h declares (-) what $file does not have, or the other way round (+):" >&2
    printf '%s\n' "$declared" >"${TMPDIR:-/tmp}/declared.$$"
    printf '%s\n' "$found" | diff -U0 "${TMPDIR:-/tmp}/declared.$$" - | grep '^[-+]kvf\|^+[^+]' >&2 || true
    rm -f "${TMPDIR:-/tmp}/declared.$$"
    exit 1
fi
