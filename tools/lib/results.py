#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up test results for tools/check.

    results.py --expected-skips FILE [--step NAME=ok|failed]... [--tests BUILD=STATUS=FILE]...

Reads meson's testlog.json (one object a line) of each build; STATUS is that of meson test. A cmocka
program that skipped some of its cases counts as passed, and each such case as skipped. As root a
skip that is not expected is a failure. The last line is "N passed, N failed, N skipped"; exit
status 1 if something failed.
"""
import argparse
import fnmatch
import json
import os
import re
import sys

TAIL_LINES = 40
CMOCKA_SKIP = re.compile(r'^\[  SKIPPED \] (\w+)$', re.M)
GOOD = {'OK', 'EXPECTEDFAIL'}


class Sum:
    def __init__(self, expected_skips):
        self.expected = expected_skips
        self.passed = self.skipped = 0
        self.failures = []  # (title, text)

    def fail(self, title, text=''):
        self.failures.append((title, text))

    def skip(self, build, name):
        reasons = [self.expected[p] for p in self.expected if fnmatch.fnmatchcase(name, p)]
        if os.geteuid() == 0 and not reasons:
            self.fail(f'{build}: {name}: skipped, and test/expected_skips does not list it')
        else:
            self.skipped += 1
            print(f'skipped: {build}: {name}: {(reasons + ["run as a plain user"])[0]}')

    def step(self, name, result):
        if result == 'ok':
            self.passed += 1
        else:
            self.fail(f'step {name}', 'its output is above')

    def test(self, build, test):
        name = test['name'].split(' / ')[-1]
        text = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}".strip()
        if test['result'] == 'SKIP':
            self.skip(build, name)
        elif test['result'] in GOOD:
            self.passed += 1
        else:
            self.fail(f"{build}: {name}: {test['result']} after {test['duration']:.1f} s, "
                      f"status {test['returncode']}", text)
        for case in sorted(set(CMOCKA_SKIP.findall(text))):
            self.skip(build, f'{name}/{case}')

    def build(self, build, status, path):
        before = len(self.failures)
        try:
            with open(path, encoding='utf-8', errors='replace') as f:
                tests = [json.loads(line) for line in f if line.strip()]
        except (OSError, ValueError) as error:
            self.fail(f'{build}: no results', f'{error}; the output of meson test is above')
            return
        if not tests:
            self.fail(f'{build}: no test ran', path)
        for test in tests:
            self.test(build, test)
        if status != '0' and len(self.failures) == before:
            self.fail(f'{build}: meson test ended with status {status}', 'its output is above')
        slow = max(tests, key=lambda t: t['duration'], default=None)
        if slow:
            print(f"{build}: {len(tests)} tests; the slowest is {slow['name'].split(' / ')[-1]}, "
                  f"{slow['duration']:.1f} s")


def read_expected_skips(path):
    """Lines "name: reason"; # begins a comment."""
    expected = {}
    with open(path, encoding='utf-8') as f:
        for number, line in enumerate(f, 1):
            line = line.split('#')[0].strip()
            if not line:
                continue
            name, colon, reason = line.partition(': ')
            if not colon or not reason.strip():
                sys.exit(f'{path}:{number}: want "name: reason", got "{line}"')
            expected[name.strip()] = reason.strip()
    return expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--expected-skips', required=True)
    parser.add_argument('--step', action='append', default=[])
    parser.add_argument('--tests', action='append', default=[])
    args = parser.parse_args()
    total = Sum(read_expected_skips(args.expected_skips))
    for item in args.step:
        total.step(*item.rsplit('=', 1))
    for item in args.tests:
        total.build(*item.split('=', 2))
    for title, text in total.failures:
        print(f'\nFAILED {title}')
        for line in text.splitlines()[-TAIL_LINES:]:
            print(f'    {line}')
    if total.failures:
        print()
    failed = len(total.failures)
    print(f'{total.passed} passed, {failed} failed, {total.skipped} skipped')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
