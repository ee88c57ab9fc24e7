#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Verifies every algorithm of every collective for 1,000 ranks within 4 GB: verify_1000_ranks.sh PLAN INFO
set -eu
plan=$1
info=$2
ulimit -v 4194304
n=0
for collective in $("$info" --algorithms | sed -n 's/^algorithm *\([a-z_]*\)=.*/\1/p' | sort -u); do
    "$plan" "$collective" --ranks 1000 --verify | grep ' ok$'
    n=$((n + 1))
done
[ $n -ge 16 ] || { echo "only $n collectives were found"; exit 1; }
