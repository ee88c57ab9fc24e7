#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs DistributedTest of the installed torch on ringcomm, and compares with gloo's results.

    PYTHONPATH=build/api/python test/python/distributed_test/run.py --ranks 2 --as gloo

A test that gloo passes must pass here, unless exceptions.txt lists it. Each test has a limit, after
which its processes are killed. No file of torch is copied or changed. Exit status 77: no torch, or
one without its tests' modules.
"""
import argparse
import collections
import fnmatch
import importlib.util
import os
import sys
import time
import unittest

import reference

TAIL_LINES = 40
NEEDED = ('torch', 'numpy', 'expecttest')  # torch's tests import the last two


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--as', dest='name', choices=('ringcomm', 'gloo', 'mpi'), default='ringcomm',
                        help='under its own name, or in place of gloo or mpi (all_to_all only)')
    parser.add_argument('--only', default='*', metavar='PATTERN[,PATTERN]...',
                        help='tests by name, with * and ?')
    parser.add_argument('--limit', type=float, default=60, metavar='SECONDS', help='for each test')
    parser.add_argument('--reference', action='store_true', help='run gloo itself')
    parser.add_argument('--store', action='store_true', help='with --reference: store its results')
    args = parser.parse_args()
    if args.store and not args.reference:
        parser.error('--store is for the results of --reference')
    return args


def prepare(args):
    """Variables that torch reads while it defines its tests, and ringcomm when torch loads it."""
    for variable in [name for name in os.environ if name.startswith('RINGCOMM_')]:
        del os.environ[variable]  # of a launcher around this program
    for variable in ('RANK', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'):
        os.environ.pop(variable, None)
    if args.reference:
        args.name = 'gloo'
    elif args.name != 'ringcomm':
        os.environ['RINGCOMM_TORCH_AS'] = args.name
    os.environ.update(BACKEND=args.name, WORLD_SIZE=str(args.ranks), INIT_METHOD='file://',
                      OMP_NUM_THREADS='1', TORCH_SHOW_CPP_STACKTRACES='0')
    import torch  # noqa: F401
    if not args.reference:
        from ringcomm.torch import autoload
        autoload.register()


def result_of(case, found):
    """(result, text) of one test."""
    case.run(found)
    if found.skipped:
        return 'skipped', found.skipped[0][1]
    problems = found.errors + found.failures
    if not problems:
        return 'passed', ''
    return ('hung' if 'case.Hang' in problems[0][1] else 'failed'), problems[0][1] + case.text


class Report:
    """Evaluates, counts and prints results as they arrive."""

    def __init__(self, expected, exceptions):
        self.expected, self.exceptions = expected, exceptions
        self.counts = collections.Counter()
        self.bad = []
        self.results = {}

    def judge(self, test, result):
        if result == 'passed':
            return result
        if test in self.exceptions:
            return 'excepted'
        gloo = self.expected.get(test, 'skipped')
        if result == 'skipped':
            return 'failed' if gloo == 'passed' else 'skipped'
        return 'as gloo' if gloo in ('failed', 'hung') else 'failed'

    def add(self, test, result, text, seconds):
        self.results[test] = result
        verdict = self.judge(test, result)
        self.counts[verdict] += 1
        if verdict == 'skipped':
            return
        print(f'{seconds:7.2f} s  {verdict:<9} {test}', flush=True)
        if verdict == 'failed':
            tail = '\n'.join(text.splitlines()[-TAIL_LINES:])
            print('    ' + tail.replace('\n', '\n    '), flush=True)
            self.bad.append(test)

    def finish(self, seconds):
        notes = [f'{self.counts[word]} {text}' for word, text in (
            ('excepted', 'do not pass for a reason in exceptions.txt'),
            ('as gloo', 'do not pass with gloo either')) if self.counts[word]]
        if self.bad:
            print('failed: ' + ' '.join(self.bad))
        if notes:
            print(', '.join(notes))
        print(f'after {seconds:.0f} s')
        print(f'{self.counts["passed"]} passed, {self.counts["failed"]} failed, '
              f'{self.counts["skipped"]} skipped')


def main():
    args = parse()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f'{sys.executable} has no {", ".join(missing)}')
        sys.exit(77)
    prepare(args)
    import torch
    import case
    case.Case.limit = args.limit
    case.open_gates()
    only = 'test_all_to_all*' if args.name == 'mpi' and args.only == '*' else args.only
    tests = [name for name in case.test_names()
             if any(fnmatch.fnmatchcase(name, pattern) for pattern in only.split(','))]
    expected = reference.read(torch.__version__, args.ranks)
    who = 'gloo itself' if args.reference else f'ringcomm as {args.name}'
    print(f'torch {torch.__version__}, {who}, {args.ranks} ranks, {len(tests)} tests')
    if not expected:
        print('gloo was not measured with this torch and this number of ranks: every failure counts')
    exceptions = {} if args.reference else reference.read_exceptions(args.name)
    report = Report(expected, exceptions)
    began = time.monotonic()
    for name in tests:
        at = time.monotonic()
        test = case.Case(name)
        result, text = result_of(test, unittest.TestResult())
        report.add(name, result, text, time.monotonic() - at)
    report.finish(time.monotonic() - began)
    if args.store:
        reference.write(torch.__version__, args.ranks, report.results)
    sys.exit(1 if report.bad and not args.store or not tests else 0)


if __name__ == '__main__':
    main()
