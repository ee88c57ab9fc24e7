#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch's ProcessGroupNCCL, from an unmodified wheel for CUDA 13, on libnccl.so.2 and the CUDA emulator.

    torch_nccl_test.py RINGCOMM_RUN RINGCOMM_INFO EMULATOR STAND_IN CASE RANKS

CASE: a function of torch_ranks.py. STAND_IN: the stand-in for libcudart.so.13. Runs with the Python of torch. A rank
that differs, dies or sleeps is named: by torch's error within 2 s, or by a warning and ringcomm-info --live.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

RUN, INFO, EMULATOR, STAND_IN, CASE, RANKS = sys.argv[1:]
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'torch_ranks.py')
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(RUN))), 'api/python')
SENTENCES = {'mismatch': ('all_reduce of 60 float32', 'broadcast of 60 float32'), 'killed': ('lost rank 1',)}
TUTORIALS = os.path.join(os.path.dirname(os.path.dirname(PROGRAM)), 'python/tutorials/large_scale')
PROGRAMS = ['process_group_4', 'broadcast', 'reduce_sum', 'reduce_max', 'scatter_nccl', 'allreduce_sum', 'allreduce_max',
            'allgather', 'reduce_scatter', 'barrier']
LIMIT = 2.0  # seconds from the cause to torch's error


def launch(*options, arguments=(CASE,), **more):
    env = {**os.environ, 'FAKECUDA_DEVICES': '4', 'LD_PRELOAD': STAND_IN, 'PYTHONPATH': PACKAGE,
           'LD_LIBRARY_PATH': EMULATOR, 'TORCH_NCCL_ENABLE_MONITORING': '0', **more}
    env.pop('MALLOC_PERTURB_', None)
    return subprocess.Popen([RUN, '--nccl', '-n', RANKS, '--bind', 'none', *options, '--', sys.executable, PROGRAM, *arguments],
                            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def works():
    done = launch()
    out, _ = done.communicate(timeout=280)
    print(out[-6000:])
    if done.returncode != 0 or out.count('DONE') != int(RANKS):
        sys.exit(f'status {done.returncode}')


def tutorials():
    """Programs of a tutorial that name the backend nccl have the output of gloo on the CPU."""
    for name in PROGRAMS:
        printed = []
        for backend in 'nccl', 'gloo':
            done = launch(arguments=('tutorial', backend, os.path.join(TUTORIALS, f'{name}.py')))
            out, _ = done.communicate(timeout=280)
            lines = [line for line in out.splitlines() if re.match(r'\[\d\] (before|after|rank|\[?tensor| +\[|<)', line)]
            printed.append(sorted(re.sub(', device=.cuda:\\d.|0x[0-9a-f]+', '', line) for line in lines))
            if done.returncode != 0 or not lines:
                sys.exit(f'{name} on {backend}: status {done.returncode}\n{out[-3000:]}')
        print(f'{name}: {len(printed[0])} lines')
        if printed[0] != printed[1]:
            sys.exit(f'{name}: nccl {printed[0]}, gloo {printed[1]}')


def until(pattern, lines, process, seconds):
    """Reads lines until one matches."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = process.stdout.readline()
        lines.append(line)
        found = re.search(pattern, line)
        if found or not line:
            return found
    return None


def reported():
    """torch's watchdog or the call itself reports the library's sentence."""
    process = launch('--keep-going', TORCH_NCCL_ASYNC_ERROR_HANDLING='3')
    lines, first, cause = [], None, None
    while True:
        line = process.stdout.readline()
        now = time.time()
        if not line or (cause and now - cause > 20):
            break
        lines.append(line)
        stamp = re.search(r'CAUSE ([0-9.]+)', line)
        cause = float(stamp[1]) if stamp else cause
        of_torch = 'ringcomm [' not in line
        if cause and of_torch and all(word in line for word in SENTENCES[CASE]):
            first = first or now
            break
    process.kill()
    process.wait()
    print(''.join(lines)[-6000:])
    if not first:
        sys.exit(f'torch does not report {SENTENCES[CASE]}')
    print(f'torch reported after {first - cause:.2f} s')
    if first - cause > LIMIT:
        sys.exit('too late')


def named():
    """A rank sleeps: ringcomm-info and a warning name it and its call."""
    process = launch(RINGCOMM_WARN_AFTER='3')
    lines = []
    if not until('CAUSE', lines, process, 120):
        sys.exit(''.join(lines))
    time.sleep(2.5)
    live = subprocess.run([INFO, '--live'], capture_output=True, text=True, timeout=60).stdout
    warning = until(r'no progress .*rank 1 \(pid', lines, process, 30)
    process.kill()
    process.wait()
    print(live, ''.join(lines)[:6000])
    if not warning or 'all_reduce' not in warning.string:
        sys.exit('no warning names rank 1 and the call')
    if not re.search(r'rank 1 \(pid \d+\)', live) or 'all_reduce' not in live:
        sys.exit('ringcomm-info --live does not name rank 1')


def main():
    if not os.path.exists(STAND_IN):
        print('the stand-in for libcudart.so.13 is not built')
        sys.exit(77)
    {'mismatch': reported, 'killed': reported, 'sleeping': named, 'tutorials': tutorials}.get(CASE, works)()


if __name__ == '__main__':
    main()
