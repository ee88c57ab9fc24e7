#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""nvrtc.py LIBNVRTC CC SOURCE OUTPUT FOLDER...: compiles the kernels of SOURCE to PTX for compute capability CC.

Uses a toolkit's run-time compiler, which is the device half of its nvcc, with the nvcc options of
kernels/cuda/meson.build. Headers are in the folders."""
import ctypes
import sys

STDINT = b'''
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long uint64_t; typedef unsigned long uintptr_t;
#define INT64_MAX 0x7fffffffffffffffl
#define INT64_MIN (-INT64_MAX - 1)
'''


def texts(values):
    return (ctypes.c_char_p * len(values))(*values)


def output(nvrtc, program, what):
    """Text of the program: its 'PTX', its 'ProgramLog'."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f'nvrtcGet{what}Size')(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f'nvrtcGet{what}')(program, text)
    return text.value.decode()


def compile_ptx(library, cc, source, folders):
    nvrtc = ctypes.CDLL(library)
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    with open(source, 'rb') as file:
        text = file.read()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 1, texts([STDINT]), texts([b'stdint.h']))
    options = [f'--gpu-architecture=compute_{cc}', '-std=c++17', '--fmad=false',
               *(f'--include-path={folder}' for folder in folders)]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), texts([option.encode() for option in options]))
    if failed:
        sys.exit(f'NVRTC {major.value}.{minor.value}: {failed}\n' + output(nvrtc, program, 'ProgramLog'))
    return f'{major.value}.{minor.value}', output(nvrtc, program, 'PTX')


def main():
    library, cc, source, target, *folders = sys.argv[1:]
    version, ptx = compile_ptx(library, cc, source, folders)
    with open(target, 'w', encoding='ascii') as file:
        file.write(ptx)
    print(f'CUDA {version}: {len(ptx)} bytes of PTX for sm_{cc}')


if __name__ == '__main__':
    main()
