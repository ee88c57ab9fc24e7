#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cuda_toolkit.sh NVCC [NVCC-OPTION...]: prints three lines about NVCC's toolkit: the folder of
# cuda.h, its CUDA_VERSION, and the option that compresses images (an empty line before CUDA 12.8).
# NVCC may be a script that runs the compiler. Fails with an error if there is no cuda.h, or if NVCC
# cannot compile an empty kernel: for example without a C++ compiler, or with one that is too new.
nvcc=$1
shift
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
echo '__global__ void empty() {}' >"$dir/empty.cu"
if ! "$nvcc" "$@" -ptx -arch=compute_80 -o "$dir/empty.ptx" "$dir/empty.cu" >"$dir/log" 2>&1; then
    echo "$nvcc cannot compile an empty kernel: $(head -n 3 "$dir/log" | tr '\n' ' ')"
    exit 1
fi
# The dry run prints lines such as '#$ TOP=...' and '#$ INCLUDES="-I..."  '.
plan=$("$nvcc" "$@" --dryrun -ptx -arch=compute_80 -o "$dir/empty.ptx" "$dir/empty.cu" 2>&1)
top=$(printf '%s\n' "$plan" | sed -n 's/^#\$ TOP=//p' | head -n 1)
for folder in "$(printf '%s\n' "$plan" | sed -n 's/^#\$ INCLUDES="-I\([^"]*\)".*/\1/p')" "$top/include"; do
    if [ -f "$folder/cuda.h" ]; then
        realpath "$folder"
        sed -n 's/^#define CUDA_VERSION *\([0-9]*\).*/\1/p' "$folder/cuda.h"
        "$nvcc" --help | grep -q -e '--compress-mode.*size' && echo '--compress-mode=size' || echo
        exit 0
    fi
done
echo "$nvcc has no cuda.h in $top/include"
exit 1
