#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Vectors of more than 2^31 elements between two ranks: every collective, with every element
# compared: huge_vectors.sh BENCH INFO TRANSPORT. Needs 9 GB of memory.
set -eu
bench=$1
info=$2
n=0
available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
[ "$available" -gt 12000000 ] || { echo "$available kB of memory are too little"; exit 77; }
for collective in $("$info" --algorithms | sed -n 's/^algorithm *\([a-z_]*\)=.*/\1/p' | sort -u); do
    [ "$collective" != barrier ] || continue
    "$bench" "$collective" --ranks 2 --transport "$3" -d uint8 -b 2147483651 -e 2147483651 -n 1 -w 0 \
        --check --timeout 300 | tail -n 1
    n=$((n + 1))
done
[ $n -ge 15 ] || { echo "only $n collectives were found"; exit 1; }
