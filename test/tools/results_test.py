#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of tools/lib/results.py, which sums up tools/check: results_test.py RESULTS_PY"""
import json
import os
import subprocess
import sys
import tempfile

RESULTS = sys.argv[1]
ROOT = os.geteuid() == 0


def entry(name, result, stdout=''):
    return {'name': f'ringcomm:unit / {name}', 'result': result, 'stdout': stdout, 'stderr': '',
            'duration': 1.0, 'returncode': 0 if result == 'OK' else 1}


def results(entries, status=0, steps=(), skips='', again=None):
    """Runs results.py on one build; returns (exit status, last line, all lines)."""
    with tempfile.TemporaryDirectory() as d:
        log, expected = os.path.join(d, 'log.json'), os.path.join(d, 'skips')
        if entries is not None:
            with open(log, 'w', encoding='utf-8') as f:
                f.writelines(json.dumps(e) + '\n' for e in entries)
        with open(expected, 'w', encoding='utf-8') as f:
            f.write(skips)
        args = [sys.executable, RESULTS, '--expected-skips', expected,
                '--tests', f'gcc={status}={log}']
        if again is not None:
            second = os.path.join(d, 'again.json')
            with open(second, 'w', encoding='utf-8') as f:
                f.writelines(json.dumps(e) + '\n' for e in again)
            args += ['--again', f'gcc={second}']
        for step in steps:
            args += ['--step', step]
        done = subprocess.run(args, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.returncode, done.stdout.splitlines()[-1], done.stdout


def failed(entries):
    """Returns the output of --failed, which replaces the last line."""
    with tempfile.NamedTemporaryFile('w', encoding='utf-8') as f:
        f.writelines(json.dumps(e) + '\n' for e in entries)
        f.flush()
        done = subprocess.run([sys.executable, RESULTS, '--failed', f.name], text=True,
                              stdout=subprocess.PIPE, check=False)
        return done.returncode, done.stdout, done.stdout


def expect(result, status, last, words=''):
    if result[:2] != (status, last) or words not in result[2]:
        sys.exit(f'wanted {status}, "{last}" and "{words}", got {result[0]}:\n{result[2]}')


def main():
    ok = [entry('a', 'OK'), entry('b', 'OK')]
    expect(results(ok), 0, '2 passed, 0 failed, 0 skipped')
    expect(results(ok, steps=['format=ok']), 0, '3 passed, 0 failed, 0 skipped')
    expect(results(ok, steps=['format=failed']), 1, '2 passed, 1 failed, 0 skipped', 'step format')
    expect(results(ok, status=3), 1, '2 passed, 1 failed, 0 skipped', 'status 3')
    expect(results(None), 1, '0 passed, 1 failed, 0 skipped', 'no results')
    expect(results([]), 1, '0 passed, 1 failed, 0 skipped', 'no test ran')
    for bad in 'FAIL', 'TIMEOUT', 'ERROR', 'INTERRUPT', 'UNEXPECTEDPASS':
        text = '\n'.join(f'line {i}' for i in range(100))
        result = results(ok + [entry('c', bad, text)], status=1)
        expect(result, 1, '2 passed, 1 failed, 0 skipped', f'FAILED gcc: c: {bad}')
        expect(result, 1, '2 passed, 1 failed, 0 skipped', 'line 60\n')
    shaky = ok + [entry('c', 'FAIL', 'too late')]
    expect(results(shaky, status=1, again=[entry('c', 'OK')]), 0, '3 passed, 0 failed, 0 skipped',
           'UNSTABLE gcc: c: FAIL after 1.0 s, status 1; alone it passed\n    too late')
    expect(results(shaky, status=1, again=[entry('c', 'FAIL')]), 1,
           '2 passed, 1 failed, 0 skipped', 'FAILED gcc: c: FAIL')
    expect(results(shaky, status=1, again=[entry('b', 'OK')]), 1, '2 passed, 1 failed, 0 skipped')
    expect(failed(shaky + [entry('d', 'TIMEOUT')]), 0, 'c\nd')
    expect(failed(shaky * 4), 0, '')
    skip = ok + [entry('c', 'SKIP')]
    expect(results(skip, skips='# none\nc: no such device\n'), 0, '2 passed, 0 failed, 1 skipped',
           'no such device')
    family = ok + [entry('c-one', 'SKIP'), entry('c-two', 'SKIP')]
    expect(results(family, skips='c-*: why\n'), 0, '2 passed, 0 failed, 2 skipped', 'c-two: why')
    cmocka = '[ RUN      ] x\n[  SKIPPED ] x\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] x\n'
    inner = [entry('a', 'OK', cmocka)]
    expect(results(inner, skips='a/x: why\n'), 0, '1 passed, 0 failed, 1 skipped')
    if ROOT:  # an ordinary user may skip any test
        expect(results(skip), 1, '2 passed, 1 failed, 0 skipped', 'does not list it')
        expect(results(skip, skips='c-*: why\n'), 1, '2 passed, 1 failed, 0 skipped', 'list it')
        expect(results(inner), 1, '1 passed, 1 failed, 0 skipped', 'a/x')
    else:
        expect(results(skip), 0, '2 passed, 0 failed, 1 skipped')
    result = results(ok, skips='c without a reason\n')
    if result[0] == 0:
        sys.exit('a skip without a reason is accepted')


if __name__ == '__main__':
    main()
