#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""exports_test.py LIBRARY INCLUDES: the stand-in exports the 422 names of NVIDIA's runtime of CUDA 13.0.

With a libcudart.so.13 in the toolkit of INCLUDES (the folder of cuda.h), each name and its version must be there too.
"""
import os
import subprocess
import sys

library, includes = sys.argv[1:]


def exports(path):
    lines = subprocess.run(['nm', '-D', '--defined-only', path], capture_output=True, text=True, check=True).stdout
    return {line.split()[2] for line in lines.splitlines() if line.split()[1] == 'T'}


def nvidia_runtime():
    top = os.path.dirname(includes)
    paths = [f'{top}/{folder}/libcudart.so.13' for folder in ('lib', 'lib64', '../../lib64')]
    return next(filter(os.path.exists, paths), None)


names = exports(library)
runtime = nvidia_runtime()
wrong = [name for name in names if '@@libcudart.so.13' not in name]
if runtime:
    theirs = exports(runtime)
    wrong += names - theirs
    print(f'{runtime} has {len(theirs - names)} other names: {sorted(theirs - names)}')
print(f'{len(names)} names, wrong: {sorted(wrong)}')
sys.exit(len(names) != 422 or bool(wrong))
