#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that share a last-level cache: near_test.py RINGCOMM_RUN RINGCOMM_BENCH RINGCOMM_INFO

RINGCOMM_NEAR and ringcomm-run --near select them; results are right either way; another value of
RINGCOMM_NEAR is an error that contains the value. ringcomm-info prints what a job would find.
"""
import json
import os
import subprocess
import sys

RUN, BENCH, INFO = sys.argv[1:4]


def bench(*options, near=None):
    env = {name: value for name, value in os.environ.items() if name != 'RINGCOMM_NEAR'}
    env['RINGCOMM_LOG'] = 'info'
    if near is not None:
        env['RINGCOMM_NEAR'] = near
    done = subprocess.run(
        [RUN, '-n', '3', *options, '--', BENCH, 'broadcast', '--transport', 'shm', '--check',
         '-b', '16K', '-e', '1M', '-n', '5'], env=env, text=True, capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def expect(text, status, result):
    if result[0] != status or text not in result[1]:
        sys.exit(f'want status {status} and "{text}", got status {result[0]}:\n{result[1]}')


expect('2 of 2 other ranks of this host are near (set by RINGCOMM_NEAR)', 0, bench(near='1'))
expect('2 of 2 other ranks of this host are near (set by RINGCOMM_NEAR)', 0, bench('--near', near='0'))
expect('0 of 2 other ranks of this host are near (set by RINGCOMM_NEAR)', 0, bench(near='0'))
expect('ranks of this host are near (', 0, bench())
expect('RINGCOMM_NEAR=2 is not auto, 0 or 1', 1, bench(near='2'))


def machine(near, protocol=''):
    """The rows of ringcomm-info --cpus, as NAME: (value, origin, text)."""
    env = {**os.environ, 'RINGCOMM_NEAR': near, 'RINGCOMM_PROTOCOL': protocol}
    out = subprocess.run([INFO, '--cpus', '--json', '-'], env=env, text=True, check=True,
                         capture_output=True, timeout=60).stdout
    return {r['name']: (r['value'], r['origin'], r['text']) for r in json.loads(out)['rows']}


def same(want, got):
    if want != got:
        sys.exit(f'want {want}, got {got}')


STORES = 'slots of near ranks: temporal stores; of far ranks: non-temporal 32K-'
same(('all', 'environment', f'set by RINGCOMM_NEAR; {STORES}'),
     machine('1', 'slot_non_temporal=32K-')['near'])
same(('none', 'environment',
      'set by RINGCOMM_NEAR; slots of near and far ranks: temporal stores'),
     machine('0', 'slot_non_temporal=never')['near'])
same(('invalid', 'environment', 'RINGCOMM_NEAR=2 is not auto, 0 or 1'), machine('2')['near'])
rows = machine('auto')
if rows['virtual'][0] == 'yes':
    same('none', rows['near'][0])
    same('a virtual machine does not show which cache a CPU uses', rows['near'][2].split(';')[0])
caches = rows['last_level_caches']
if int(caches[0]) > 0:
    same(True, caches[2][0].isdigit())
