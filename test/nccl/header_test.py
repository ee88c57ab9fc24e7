#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""header_test.py LIBRARY FOLDER COMPILER...: the tables of api/nccl/nccl_names.h against NCCL 2.30.7 of PyPI.

Compares numbers, the layout of structs and the types of functions with the wheel's nccl.h, and the exported names with
the wheel's library. The wheel is downloaded into FOLDER; without it the test is skipped. --names: only the names of the
library against the table.
"""
import os
import re
import subprocess
import sys

API = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), 'api/nccl')
WHEEL = 'nvidia-nccl-cu13==2.30.7'
PROGRAM = '''
#include <nccl.h>
#include <stddef.h>
#include "nccl_names.h"
#define SAME2(name, number) _Static_assert((int)name == (number), #name);
#define SAME3(name, number, more) SAME2(name, number)
NCCL_RESULT_MAP(SAME3) NCCL_DTYPE_MAP(SAME3) NCCL_OP_MAP(SAME3) NCCL_VALUE_MAP(SAME2)
SAME2(ncclNumResults, 9) SAME2(ncclMaxRedOp, 0x7fffffff) SAME2(NCCL_VERSION_CODE, NCCL_NUMBER)
SAME2(NCCL_UNIQUE_ID_BYTES, NCCL_ID_BYTES) SAME2(NCCL_API_MAGIC, (int)NCCL_MAGIC)
SAME2(NCCL_CONFIG_UNDEF_INT, NCCL_UNDEFINED) SAME2(NCCL_SPLIT_NOCOLOR, NCCL_NO_COLOUR)
SAME2(NCCL_SHRINK_ABORT, NCCL_ABORTING)
#define FIELD(type, name) type name;
struct ours { NCCL_CONFIG_MAP(FIELD) };
#define PLACE(type, name) _Static_assert(offsetof(struct ours, name) == offsetof(ncclConfig_t, name), #name);
NCCL_CONFIG_MAP(PLACE)
_Static_assert(sizeof(struct ours) == sizeof(ncclConfig_t) && sizeof(ncclRedOp_t) == 4, "sizes");
#define TYPE(result, name, parameters) result (*check_##name) parameters = name; result (*check_p##name) parameters = p##name;
#define OPERATION(result, name, parameters, ...) TYPE(result, name, parameters)
NCCL_FUNCTION_MAP(TYPE) NCCL_OPERATION_MAP(OPERATION)
'''
RUNTIME = '#include <stddef.h>\n#define CUDART_VERSION 13000\ntypedef struct CUstream_st *cudaStream_t;\n'


def exported(library):
    text = subprocess.run(['nm', '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in text.splitlines() if re.fullmatch('p?nccl[A-Za-z0-9]+', line.split()[-1])}


def in_table():
    with open(os.path.join(API, 'nccl_names.h')) as file:
        text = file.read()
    names = set(re.findall(r'X\([^,()]+, (nccl\w+)(?:,\s*\\?\s*\(|\))', text[text.index('#define NCCL_FUNCTION_MAP'):]))
    return names | {'ncclGroupSimulateEnd'}


def wheel(folder):
    if not os.path.isdir(os.path.join(folder, 'nvidia')):
        done = subprocess.run(['/usr/bin/python3', '-m', 'pip', 'install', '-q', '--no-deps', '--target', folder, WHEEL],
                              env={**os.environ, 'LD_LIBRARY_PATH': ''})
        if done.returncode != 0:
            print(f'{WHEEL} cannot be downloaded')
            sys.exit(77)
    return os.path.join(folder, 'nvidia/nccl')


def equal(got, want, what):
    if got != want:
        sys.exit(f'{what}: missing {sorted(want - got)}, more {sorted(got - want)}')


def main():
    library, folder, *compiler = [arg for arg in sys.argv[1:] if arg != '--names']
    ours = exported(library)
    names = in_table()
    equal(ours, names | {f'p{name}' for name in names}, 'names of the library against the table')
    print(f'{len(names)} names, and as many with a p')
    if '--names' in sys.argv:
        return
    nccl = wheel(folder)
    theirs = exported(os.path.join(nccl, 'lib/libnccl.so.2'))
    equal({name for name in ours if name[0] != 'p'}, {name for name in theirs if name[0] != 'p'}, 'names of NCCL')
    if theirs - ours:
        sys.exit(f'not exported: {sorted(theirs - ours)}')
    for name, text in ('cuda_runtime.h', RUNTIME), ('cuda_fp16.h', ''), ('cuda_bf16.h', ''), ('check.c', PROGRAM):
        with open(os.path.join(folder, name), 'w') as file:
            file.write(text)
    subprocess.run([*compiler, '-std=c11', '-Werror', '-Wno-deprecated-declarations', f'-I{nccl}/include', f'-I{folder}', f'-I{API}',
                    '-fsyntax-only', os.path.join(folder, 'check.c')], check=True)
    print('numbers, structs and functions are those of nccl.h')


if __name__ == '__main__':
    main()
