#!/bin/sh
# run.sh PROGRAM README: the program succeeds and prints the page's ```text block.
set -eu
program=$1 readme=$2

expected=$(awk '/^```/ {inside = ($0 == "```text"); next} inside' "$readme")
printed=$("$program")
[ -n "$expected" ] || { echo "$readme has no text block" >&2; exit 1; }
[ "$printed" = "$expected" ] || { echo "expected: $expected"; echo "printed: $printed"; exit 1; } >&2
