#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Types and operators through ringcomm-bench --check: types_operators_test.py BENCH sample|all

`all` (several minutes): each defined pair on 2, 3 and 5 ranks over shm and tcp, with all
collectives. `sample`: a part in which each type, operator, number of ranks and transport appears
several times. Then avg, whose division is one step, with each algorithm. Undefined pairs print an
error.
"""
import itertools
import re
import subprocess
import sys

BENCH, ALL = sys.argv[1], sys.argv[2] == 'all'


def run(*args):
    return subprocess.run([BENCH, *args], check=False, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def names(option, collective='all_reduce'):
    """Returns the names that the bench lists."""
    listed = run(collective, option, 'none').stderr
    return re.findall(r'\w+', re.search(r'there are (.*)', listed).group(1))


def check(dtype, op, ranks, transport):
    sizes = '16,4096,300016' if ALL else '16,4096'
    done = run('all', '--ranks', str(ranks), '--check', '-d', dtype, '-o', op, '--sizes', sizes,
               '-n', '2', '-w', '0', '--transport', transport)
    if done.returncode != 0:
        sys.exit(f'{dtype} {op} on {ranks} ranks over {transport}:\n{done.stdout}{done.stderr}')


def refused(dtype, op):
    """Returns whether the pair is undefined, according to the error; checks that the exit status
    agrees."""
    done = run('kernel', '-d', dtype, '-o', op, '-b', '64', '-e', '64', '-n', '1')
    undefined = f'{op} of {dtype} is not defined: ' in done.stderr
    if undefined == (done.returncode == 0):
        sys.exit(f'{dtype} {op}: {done.returncode} {done.stderr}')
    return undefined


def check_avg():
    for collective in ('all_reduce', 'reduce', 'reduce_scatter', 'reduce_scatter_v'):
        for algorithm in names('--algorithm', collective):
            done = run(collective, '--ranks', '5', '--check', '-d', 'float16', '-o', 'avg',
                       '--in-place', '--algorithm', algorithm, '--sizes', '50,400010', '-n', '2',
                       '-w', '0', '--transport', 'shm')
            alone = 'cannot run 5 ranks on 1 host' in done.stderr
            if alone != (algorithm == 'two_level') or (done.returncode != 0) != alone:
                sys.exit(f'avg by {algorithm}:\n{done.stdout}{done.stderr}')


def main():
    dtypes, ops = names('-d'), names('-o')
    pairs = [pair for pair in itertools.product(dtypes, ops) if not refused(*pair)]
    if not len(dtypes) * len(ops) / 4 < len(pairs) < len(dtypes) * len(ops) * 3 / 4:
        sys.exit(f'{len(pairs)} of {len(dtypes)} times {len(ops)} pairs are defined')
    cases = list(itertools.product(pairs, (2, 3, 5), ('shm', 'tcp')))
    if not ALL:
        cases = cases[::53]
    for (dtype, op), ranks, transport in cases:
        check(dtype, op, ranks, transport)
    check_avg()
    print(f'{len(pairs)} pairs of {len(dtypes)} types and {len(ops)} operators, '
          f'{len(cases)} cases')


main()
