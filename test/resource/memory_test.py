# SPDX-License-Identifier: BSD-3-Clause
"""Memory of each of 256 ranks on one machine over shm, with 1024 descriptors each: its share of the
mapped pages (PSS), without the callers' buffers, after all_reduces and after all_to_alls.

Usage: memory_test.py RINGCOMM_RUN STARTUP_RANK [ALGORITHM of all_to_all]"""
import csv
import os
import resource
import subprocess
import sys

RANKS, DESCRIPTORS = 256, 1024
MOST_KB = {'pss_used_kb': 16 << 10, 'pss_all_to_all_kb': 64 << 10}


def measure(run, rank, algorithm):
    """Returns the columns that tools/compare/startup_rank.c prints, by name."""
    env = {k: v for k, v in os.environ.items() if not k.startswith('RINGCOMM_')}
    env['RINGCOMM_TRANSPORT'] = 'shm'
    if algorithm:
        env['RINGCOMM_ALGORITHM'] = f'all_to_all={algorithm}'
    done = subprocess.run(
        [run, '-n', str(RANKS), '--bind', 'none', '--', rank], env=env, capture_output=True,
        text=True, timeout=800, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)))
    if done.returncode != 0:
        sys.exit(f'{done.stdout}\n{done.stderr}')
    lines = (line.partition('] ')[2] for line in done.stdout.splitlines())
    return {name: float(text) for name, text in next(csv.DictReader(lines)).items() if text}


def main():
    run, rank, *algorithm = sys.argv[1:]
    found = measure(run, rank, ''.join(algorithm))
    print(found)
    above = [f'{name} is {found[name]:.0f}, more than {most}' for name, most in MOST_KB.items()
             if found[name] > most]
    sys.exit('\n'.join(above) or 0)


if __name__ == '__main__':
    main()
