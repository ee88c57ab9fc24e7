#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""toolkit_test.py VERSION FOLDER KERNELS PTXCHECK: the GPU kernels, compiled with another CUDA 12 toolkit.

The device compiler comes from wheels of its run-time compiler, installed in FOLDER. (nvcc itself is in no wheel of
CUDA 12.) For both architectures ptx_test.py accepts the PTX, ptxas of CUDA 12.9 assembles it, and KERNELS, the
program of the test "cuda kernels", gets the bits of the CPU. LD_LIBRARY_PATH leads to the emulator."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ASSEMBLER = '12.9.86'


def run(*command, **env):
    print('$', ' '.join(command), flush=True)
    subprocess.run(command, check=True, env={**os.environ, **env})


def install(folder, package, version):
    target = os.path.join(folder, f'{package}-{version}')
    if not os.path.isdir(target):
        run('/usr/bin/python3', '-m', 'pip', 'install', '-q', '--no-deps', '--disable-pip-version-check', '--target',
            target, f'{package}=={version}', LD_LIBRARY_PATH='')
    return os.path.join(target, 'nvidia')


def assemble(ptxas, ptx, cc):
    """Assembles each kernel, and counts those that need more than registers."""
    text = subprocess.run(['sh', '-c', f'chmod +x "$0"; "$0" -v -arch=sm_{cc} -o /dev/null "$1"', ptxas, ptx],
                          check=True, stderr=subprocess.PIPE, encoding='ascii').stderr
    frames = re.findall(r'(\d+) bytes stack frame, (\d+) bytes spill', text)
    used = [frame for frame in frames if frame != ('0', '0')]
    print(f'{len(frames)} kernels assembled for sm_{cc}, {len(used)} need a stack')
    if len(frames) < 100:
        sys.exit(text[-3000:])


def main():
    version, folder, kernels, ptxcheck = sys.argv[1:]
    compiler = install(folder, 'nvidia-cuda-nvrtc-cu12', version)
    ptxas = os.path.join(install(folder, 'nvidia-cuda-nvcc-cu12', ASSEMBLER), 'cuda_nvcc/bin/ptxas')
    for seed, cc in enumerate(('80', '90')):
        ptx = os.path.join(folder, f'reduce-{version}-{cc}.ptx')
        run('/usr/bin/python3', f'{HERE}/nvrtc.py', f'{compiler}/cuda_nvrtc/lib/libnvrtc.so.12', cc,
            f'{ROOT}/kernels/cuda/reduce.cu', ptx, f'{ROOT}/kernels/cuda', f'{ROOT}/api',
            LD_LIBRARY_PATH='')  # NVRTC 12.9 uses any driver that it finds, by undocumented calls
        run('/usr/bin/python3', f'{HERE}/ptx_test.py', ptxcheck, ptx, cc)
        assemble(ptxas, ptx, cc)
        run(kernels, str(seed + 11), '30', ptx, FAKECUDA_CC=cc, FAKECUDA_SEED=str(seed), FAKECUDA_WEAK=str(seed))


if __name__ == '__main__':
    main()
