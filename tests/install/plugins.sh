#!/bin/sh
set -eu
for plugin in "$PREFIX/$LIBDIR/$PLUGINS"/*.so; do
    symbols=$(nm -D --defined-only "$plugin" | awk '{print $3}')
    [ "$symbols" = kvf_plugin_query ] || { echo "$plugin exports: $symbols" >&2; exit 1; }
    ! readelf -d "$plugin" | grep 'NEEDED.*kvferry' || { echo "$plugin links the library" >&2; exit 1; }
done
