#!/bin/sh
# moved.sh COMPILER OPTIONS...: a copy of the installed tree in another place works as the first did.
set -eu
rm -rf "$WORK"
mkdir -p "$WORK"
cp -a "$PREFIX" "$WORK/elsewhere"
PREFIX="$WORK/elsewhere" WORK="$WORK/program" exec sh "$(dirname "$0")/program.sh" "$@"
