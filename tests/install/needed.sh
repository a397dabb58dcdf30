#!/bin/sh
# What the library is built on is inside it, but for the system's C and C++ runtimes and OpenSSL.
set -eu
needed=$(readelf -d "$PREFIX/$LIBDIR/libkvferry.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$needed" ]
if echo "$needed" | grep -vE '^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|atomic|ssl|crypto)|ld-linux.*)\.so\.'; then
    echo "the library needs these" >&2
    exit 1
fi
! readelf -d "$PREFIX/$LIBDIR/libkvferry.so" | grep -E '\((RPATH|RUNPATH)\)'
