#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# install.sh MESON BUILD_DIR CONSUMER README VERSION COMPILER...: installs into an empty folder, builds
# the consumer there with the flags of pkg-config, and runs it. Then the same with the program of
# README.md, on four ranks.
set -eu
meson=$1 build=$2 consumer=$3 readme=$4 version=$5
shift 5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$meson" install -C "$build" --no-rebuild --destdir "$dir" >"$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
pc=$(find "$dir" -name ringcomm.pc)
[ -n "$pc" ] || { echo "no ringcomm.pc is installed"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$dir
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
[ "$(pkg-config --modversion ringcomm)" = "$version" ] || { echo "wrong version in $pc"; exit 1; }

# The programs see nothing of the source tree. README has one indented block that begins with an
# #include.
cp "$consumer" "$dir/consumer.c"
sed -n '/^    #include/,/^    }/s/^    //p' "$readme" >"$dir/first.c"
cd "$dir"
for program in consumer first; do
    # shellcheck disable=SC2046 # flags are words
    "$@" -std=c11 -Wall -Wextra -Wpedantic -Werror $program.c -o $program \
        $(pkg-config --cflags --libs ringcomm)
done
library=$(find "$dir" -name libringcomm.so.0)
[ -n "$library" ] || { echo "no libringcomm.so.0 is installed"; exit 1; }
LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH
out=$(timeout 30 ./consumer)
[ "$out" = "$version: 1 2 3" ] || { echo "the consumer prints '$out'"; exit 1; }

run=$(find "$dir" -path '*/bin/ringcomm-run')
timeout 60 "$run" -n 4 -- ./first | sort >out
for r in 0 1 2 3; do
    echo "[$r] rank $r of 4: the sum is 6"
done | diff - out
