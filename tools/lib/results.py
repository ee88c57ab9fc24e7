#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up test results for tools/check.

    results.py --expected-skips FILE [--step NAME=ok|failed]... [--tests BUILD=STATUS=FILE]...
               [--again BUILD=FILE]...
    results.py --failed FILE

Reads meson's testlog.json (one object per line) of each build; STATUS is the exit status of meson
test. A cmocka program that skipped some cases counts as passed, and each of these cases as skipped.
As root an unexpected skip is a failure. A test that failed, but passed when run again alone
(--again), counts as passed. It is listed as unstable with its first output, because a deadline may
pass when the cores are busy. --failed prints the names of failed tests, if they are few. The last
line is "N passed, N failed, N skipped"; exit status 1 if a test failed.
"""
import argparse
import fnmatch
import json
import os
import re
import sys

TAIL_LINES = 40
AGAIN_MAX = 3  # more failures than this are not caused by a busy machine
CMOCKA_SKIP = re.compile(r'^\[  SKIPPED \] (\w+)$', re.M)
GOOD = {'OK', 'EXPECTEDFAIL'}


def read_log(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return [json.loads(line) for line in f if line.strip()]


def failed_names(path):
    return [t['name'] for t in read_log(path) if t['result'] not in GOOD | {'SKIP'}]


class Sum:
    def __init__(self, expected_skips):
        self.expected = expected_skips
        self.passed = self.skipped = 0
        self.failures = []  # (title, text)
        self.unstable = []  # likewise
        self.again = {}  # build -> names of tests that passed when run again

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
            title = (f"{build}: {name}: {test['result']} after {test['duration']:.1f} s, "
                     f"status {test['returncode']}")
            if test['name'] in self.again.get(build, ()):
                self.passed += 1
                self.unstable.append((title, text))
            else:
                self.fail(title, text)
        for case in sorted(set(CMOCKA_SKIP.findall(text))):
            self.skip(build, f'{name}/{case}')

    def build(self, build, status, path):
        before = len(self.failures) + len(self.unstable)
        try:
            tests = read_log(path)
        except (OSError, ValueError) as error:
            self.fail(f'{build}: no results', f'{error}; the output of meson test is above')
            return
        if not tests:
            self.fail(f'{build}: no test ran', path)
        for test in tests:
            self.test(build, test)
        if status != '0' and len(self.failures) + len(self.unstable) == before:
            self.fail(f'{build}: meson test ended with status {status}', 'its output is above')
        slow = max(tests, key=lambda t: t['duration'], default=None)
        if slow:
            print(f"{build}: {len(tests)} tests; the slowest is {slow['name'].split(' / ')[-1]}, "
                  f"{slow['duration']:.1f} s")


def read_expected_skips(path):
    """Reads lines "name: reason"; # starts a comment."""
    expected = {}
    with open(path, encoding='utf-8') as f:
        for number, line in enumerate(f, 1):
            line = line.split('#')[0].strip()
            if not line:
                continue
            name, colon, reason = line.partition(': ')
            if not colon or not reason.strip():
                sys.exit(f'{path}:{number}: not "name: reason": "{line}"')
            expected[name.strip()] = reason.strip()
    return expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--failed')
    parser.add_argument('--expected-skips')
    parser.add_argument('--step', action='append', default=[])
    parser.add_argument('--tests', action='append', default=[])
    parser.add_argument('--again', action='append', default=[])
    args = parser.parse_args()
    if args.failed:
        names = failed_names(args.failed)
        print('\n'.join(n.split(' / ')[-1] for n in names if len(names) <= AGAIN_MAX), end='')
        return
    total = Sum(read_expected_skips(args.expected_skips))
    for item in args.again:
        build, path = item.split('=', 1)
        total.again[build] = {t['name'] for t in read_log(path) if t['result'] in GOOD}
    for item in args.step:
        total.step(*item.rsplit('=', 1))
    for item in args.tests:
        total.build(*item.split('=', 2))
    for word, found in (('UNSTABLE', total.unstable), ('FAILED', total.failures)):
        for title, text in found:
            print(f'\n{word} {title}{"; alone it passed" if word == "UNSTABLE" else ""}')
            for line in text.splitlines()[-TAIL_LINES:]:
                print(f'    {line}')
    if total.failures or total.unstable:
        print()
    failed = len(total.failures)
    print(f'{total.passed} passed, {failed} failed, {total.skipped} skipped')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
