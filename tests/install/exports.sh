#!/bin/sh
# Every symbol that the library defines for others is kvf_… under a version, and it is known to the loader by its major.
set -eu
library=$PREFIX/$LIBDIR/libkvferry.so

symbols=$(nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" {print $3}')
[ -n "$symbols" ]
if echo "$symbols" | grep -vE '^kvf_[a-z0-9_]+@@KVFERRY_[0-9]+\.[0-9]+$'; then
    echo "the library exports these" >&2
    exit 1
fi
readelf -d "$library" | grep -E 'SONAME.*\[libkvferry\.so\.[0-9]+\]'
