#!/bin/sh
# program.sh COMPILER OPTIONS...: builds program.c with what pkg-config says, and runs it. The library finds its plugins
# by where it lies itself.
set -eu
here=$(dirname "$0")

rm -rf "$WORK"
mkdir -p "$WORK"
export PKG_CONFIG_PATH="$PREFIX/$LIBDIR/pkgconfig"
flags=$(pkg-config --cflags --libs kvferry)
# The flags are several words on purpose.
# shellcheck disable=SC2086
"$@" -Wall -Wextra -Wpedantic -Werror "$here/program.c" -x none $flags -o "$WORK/program"
[ "$(pkg-config --variable=plugindir kvferry)" -ef "$PREFIX/$LIBDIR/$PLUGINS" ]

unset KVF_PLUGIN_PATH
LD_LIBRARY_PATH="$PREFIX/$LIBDIR" "$WORK/program" "$(pkg-config --modversion kvferry)"
