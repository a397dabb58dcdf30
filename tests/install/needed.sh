#!/bin/sh
# What the library is built on is inside it, but for the C and C++ runtimes.
set -eu
needed=$(readelf -d "$PREFIX/$LIBDIR/libkvferry.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ]
if echo "$needed" | grep -vE '^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|atomic)|ld-linux.*)\.so\.'; then
    echo "the library needs these" >&2
    exit 1
fi
! readelf -d "$PREFIX/$LIBDIR/libkvferry.so" | grep -E '\((RPATH|RUNPATH)\)'
