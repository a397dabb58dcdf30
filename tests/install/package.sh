#!/bin/sh
# package.sh CMAKE CC: builds package/ against the prefix by find_package, and runs it.
set -eu
cmake=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$WORK"
"$cmake" -S "$here/package" -B "$WORK" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$PREFIX"
"$cmake" --build "$WORK"
unset KVF_PLUGIN_PATH
"$WORK/program"
