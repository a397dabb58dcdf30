#!/bin/sh
# part.sh CMAKE CC CXX SOURCE BUILD: kvferry as part of another project, by add_subdirectory. That project is configured
# alone; what it would build, which is the same, is put there from BUILD. A program linked to it finds the plugins.
set -eu
cmake=$1 cc=$2 cxx=$3 source=$4 build=$5
here=$(cd "$(dirname "$0")" && pwd)
unset KVF_PLUGIN_PATH CFLAGS CXXFLAGS

rm -rf "$WORK"
"$cmake" -S "$here/part" -B "$WORK" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DKVFERRY_SOURCE="$source"
for option in KVF_BUILD_TESTS KVF_BUILD_TOOLS KVF_WERROR; do
    grep -qx "$option:BOOL=OFF" "$WORK/CMakeCache.txt"
done

mkdir -p "$WORK/kvferry/lib"
cp -P "$build"/lib/libkvferry.so* "$WORK/kvferry/lib"
cp "$build"/plugins/*.so "$WORK/kvferry/plugins"
"$cc" -std=c99 -I"$source/include" "$here/program.c" -o "$WORK/program" \
    -L"$WORK/kvferry/lib" -Wl,-rpath,"$WORK/kvferry/lib" -lkvferry
"$WORK/program"
