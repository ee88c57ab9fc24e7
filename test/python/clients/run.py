#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs training libraries, unedited, over gloo and over ringcomm, and compares their results.

    test/python/clients/run.py build/tools/ringcomm-run
    test/python/clients/run.py build/tools/ringcomm-run --ranks 4 --only accelerate

Each client is a script in this folder with a tiny model. It prints its results, which must be equal.
ringcomm is selected by RINGCOMM_TORCH_AS=gloo. Nothing is installed or downloaded: a library that
cannot be imported is skipped. Exit status 77: none can be imported.
"""
import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
CLIENTS = {'accelerate': 'accelerate', 'lightning': 'lightning', 'megatron': 'megatron.core',
           'deepspeed': 'deepspeed'}
QUIET = {'RINGCOMM_LOG': 'warn', 'OMP_NUM_THREADS': '1', 'CUDA_VISIBLE_DEVICES': '',
         'TORCH_CPP_LOG_LEVEL': 'ERROR'}


def missing(module):
    """The reason why it cannot be imported, or None."""
    found = subprocess.run([sys.executable, '-W', 'ignore', '-c', f'import {module}'], capture_output=True,
                           text=True, env={**os.environ, **QUIET})
    return None if found.returncode == 0 else (found.stderr.strip().splitlines() or ['it died'])[-1]


def results(args, client, alias):
    """The result lines. On failure prints the reason and returns None."""
    command = [args.launcher, '-n', str(args.ranks), '--bind', 'none', '--', sys.executable, '-W', 'ignore',
               str(HERE / f'{client}_client.py')]
    environment = {**os.environ, **QUIET, 'RINGCOMM_TORCH_AS': alias}
    try:
        found = subprocess.run(command, capture_output=True, text=True, env=environment,
                               timeout=args.limit)
    except subprocess.TimeoutExpired:
        print(f'FAILED   {client}: not complete after {args.limit:.0f} s')
        return None
    lines = sorted(line.partition('RESULT ')[2] for line in found.stdout.splitlines() if 'RESULT ' in line)
    if found.returncode != 0 or len(lines) < args.ranks:
        print(f'FAILED   {client}, {"ringcomm" if alias else "gloo"}: exit status {found.returncode}')
        print((found.stdout + found.stderr)[-6000:])
        return None
    return lines


def check(args, client):
    why = missing(CLIENTS[client])
    if why:
        print(f'skipped  {client}: {sys.executable} cannot import {CLIENTS[client]}: {why}')
        return 'skipped'
    ours, gloo = results(args, client, 'gloo'), results(args, client, '')
    if ours is None or gloo is None:
        return 'failed'
    backends = {line.split()[-1] for line in ours}, {line.split()[-1] for line in gloo}
    alike = [line.split()[:-1] for line in ours] == [line.split()[:-1] for line in gloo]
    good = alike and backends == ({'ringcomm'}, {'gloo'})
    print(f'{"as gloo" if good else "DIFFERS":<8} {client}: {ours[0]}')
    if not good:
        print(f'    ringcomm: {ours}\n    gloo:     {gloo}')
    return 'passed' if good else 'failed'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('launcher', help='ringcomm-run')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--only', choices=CLIENTS, help='one client')
    parser.add_argument('--limit', type=float, default=240, metavar='SECONDS', help='for each run of a client')
    args = parser.parse_args()
    verdicts = [check(args, client) for client in ([args.only] if args.only else CLIENTS)]
    print(', '.join(f'{verdicts.count(word)} {word}' for word in ('passed', 'failed', 'skipped')))
    sys.exit(1 if 'failed' in verdicts else 0 if 'passed' in verdicts else 77)


if __name__ == '__main__':
    main()
