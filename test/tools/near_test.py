#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that share a last-level cache: near_test.py RINGCOMM_RUN RINGCOMM_BENCH

RINGCOMM_NEAR and ringcomm-run --near select them; results are right either way; another value of
RINGCOMM_NEAR is an error that contains the value.
"""
import os
import subprocess
import sys

RUN, BENCH = sys.argv[1:3]


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
