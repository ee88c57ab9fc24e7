#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tools/lib/again.py, which runs failed tests once more: again_test.py AGAIN_PY"""
import json
import os
import subprocess
import sys
import tempfile

AGAIN = sys.argv[1]
MESON = '#!/bin/sh\necho "$*" >>"$LOG"\nfor name; do :; done\n[ "$name" = late ]\n'


def entry(name, result='FAIL', code=1, text=''):
    return {'name': f'p:fault / {name}', 'result': result, 'returncode': code, 'duration': 1.0,
            'stdout': text, 'stderr': ''}


def run(entries, stolen):
    """Returns the exit status, the entries afterwards and what meson was asked for."""
    with tempfile.TemporaryDirectory(prefix='ringcomm-again-') as folder:
        os.mkdir(f'{folder}/meson-logs')
        path, meson, log = (f'{folder}/{name}' for name in
                            ('meson-logs/testlog.json', 'meson', 'log'))
        with open(path, 'w', encoding='utf-8') as f:
            f.writelines(json.dumps(item) + '\n' for item in entries)
        with open(meson, 'w', encoding='utf-8') as f:
            f.write(MESON)
        os.chmod(meson, 0o755)
        env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", LOG=log)
        status = subprocess.run([sys.executable, AGAIN, folder, str(stolen), '--no-rebuild'],
                                env=env, stdout=subprocess.DEVNULL, check=False).returncode
        with open(path, encoding='utf-8') as f:
            after = [json.loads(line) for line in f]
        asked = open(log, encoding='utf-8').read() if os.path.exists(log) else ''
        return status, after, asked


def expect(what, entries, stolen, status, results, asked):
    got = run(entries, stolen)
    told = [item['result'] for item in got[1]]
    if got[0] != status or told != results or got[2].count('\n') != asked:
        sys.exit(f'FAIL {what}: status {got[0]}, {told}, meson was asked for {got[2]!r}')
    for item in got[1]:
        if (item['result'] == 'OK') != (item['name'] == 'p:x / good' or 'again' in item):
            sys.exit(f'FAIL {what}: {item}')


def main():
    good = dict(entry('good', 'OK', 0), name='p:x / good')
    late, slow, broken = entry('late'), entry('late', 'TIMEOUT', -15), entry('broken')
    race = entry('late', text='WARNING: ThreadSanitizer: data race')
    crash = entry('late', code=-11)
    expect('late', [good, late], 30, 0, ['OK', 'OK'], 1)
    expect('slow', [slow, good], 30, 0, ['OK', 'OK'], 1)
    expect('broken', [good, late, broken], 30, 1, ['OK', 'OK', 'FAIL'], 2)
    expect('nothing taken', [good, late], 4.9, 1, ['OK', 'FAIL'], 0)
    expect('a finding', [race, late], 30, 1, ['FAIL', 'OK'], 1)
    expect('a crash', [crash], 30, 1, ['FAIL'], 0)
    expect('many', [late] * 6, 30, 1, ['FAIL'] * 6, 0)
    expect('nothing failed', [good], 30, 1, ['OK'], 0)


if __name__ == '__main__':
    main()
