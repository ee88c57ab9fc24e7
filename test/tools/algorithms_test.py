#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every algorithm of every collective through ringcomm-bench --check: algorithms_test.py BENCH RUN

On 2, 3, 5, 8 and 16 ranks over shm and over tcp, and on three hosts, uneven and interleaved. An
algorithm that cannot run in a case must report that; each runs in some case.
"""
import os
import re
import subprocess
import sys

BENCH, RUN = sys.argv[1:3]
RANKS = (2, 3, 5, 8, 16)
HOSTS = ('aaabbc', 'aaaabccc', 'abcabcab', 'abacabcaaabbabca')  # the host of each rank
MOST = {'barrier': ['-n', '3']}
DATA = ['-n', '2', '-w', '0', '--sizes', '0,40,5000,200000,2000036']


def run(*command):
    return subprocess.run(command, check=False, text=True, timeout=300, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)


def names(*args):
    """Returns the algorithms that the bench lists."""
    return re.findall(r'\w+', re.search(r'(?:there are|is not one of) (.*)', run(BENCH, *args).stderr).group(1))


def checked(case, collective, algorithm, *command):
    """Returns whether the algorithm ran; false: it cannot, according to its error."""
    done = run(*command, collective, '--algorithm', algorithm, '--check', *MOST.get(collective, DATA))
    cannot = re.search(rf'{algorithm} cannot run \d+ ranks on \d+ host', done.stdout + done.stderr)
    if (done.returncode == 0) == bool(cannot) or not cannot and 'errors' not in done.stdout:
        sys.exit(f'{collective} by {algorithm}, {case}:\n{done.stdout}{done.stderr}')
    return not cannot


def cases():
    for n in RANKS:
        for transport in ('shm', 'tcp'):
            yield f'{n} ranks, {transport}', (BENCH, '--ranks', str(n), '--transport', transport)
    for hosts in HOSTS:
        there = f'h={hosts}; RINGCOMM_HOST_ID=$(echo $h | cut -c$((RANK + 1))) exec "$0" "$@"'
        yield f'hosts {hosts}', (RUN, '-n', str(len(hosts)), '--', 'sh', '-c', there, BENCH)


def main():
    for name in [name for name in os.environ if name.startswith('RINGCOMM_')]:
        del os.environ[name]
    ran = 0
    for collective in names('none'):
        if collective in ('sendrecv', 'all', 'kernel', 'or'):
            continue
        for algorithm in names(collective, '--algorithm', 'none'):
            n = sum(checked(case, collective, algorithm, *command) for case, command in cases())
            if n == 0:
                sys.exit(f'{collective} by {algorithm} runs nowhere')
            print(f'{collective} {algorithm}: {n} cases', flush=True)
            ran += n
    print(f'{ran} cases')


main()
