#!/bin/sh
set -eu
found=$(cd "$PREFIX/include" && find . -type f | sort | tr '\n' ' ')
[ "$found" = "./kvferry/kvferry.h ./kvferry/plugin.h " ] || { echo "installed headers: $found" >&2; exit 1; }
