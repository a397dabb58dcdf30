#!/bin/sh
# prefix.sh CMAKE BUILD: installs the build to $PREFIX, which holds nothing of an earlier run.
set -eu
cmake=$1 build=$2

rm -rf "$PREFIX"
env -u DESTDIR "$cmake" --install "$build" --prefix "$PREFIX"
[ -e "$PREFIX/$LIBDIR/libkvferry.so" ]
[ -e "$PREFIX/$LIBDIR/$PLUGINS/shm.so" ]
