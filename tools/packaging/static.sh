#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# static.sh OUTPUT MAP OBJCOPY AR ARCHIVE... -- COMPILER...: makes the static library. All members of the archives are
# linked to one object. As in the shared library, only the symbols that the linker map MAP exports are global, because
# a program may use the same names.
set -eu
output=$1 map=$2 objcopy=$3 ar=$4
shift 4
archives=
while [ "$1" != -- ]; do
    archives="$archives $1"
    shift
done
shift
dir=$(mktemp -d "$output.XXXXXX")
trap 'rm -rf "$dir"' EXIT
sed -nE 's/^ +(rcm_[a-z0-9_]+);$/\1/p' "$map" >"$dir/names"
# shellcheck disable=SC2086 # archives are words: paths of the build folder
"$@" -r -nostdlib -o "$dir/ringcomm.o" -Wl,--whole-archive $archives -Wl,--no-whole-archive
"$objcopy" --keep-global-symbols="$dir/names" "$dir/ringcomm.o"
rm -f "$output"
"$ar" rcsD "$output" "$dir/ringcomm.o"
