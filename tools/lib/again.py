#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests that failed once more, each alone, where the machine was not ours while they ran.

    again.py BUILD_DIR STOLEN_PERCENT ARGUMENT...

What runs a virtual machine may take its processors away, for seconds; tests whose ranks must answer
in time fail then, whatever the library does. STOLEN_PERCENT says how much was taken during the run
(of /proc/stat); below STOLEN_MIN nothing is run again, nor if more than FAILED_MAX tests failed, nor
what a sanitizer found or a signal ended. The ARGUMENTs go to meson test. A test that passes alone gets the result OK in testlog.json, with the
failure kept beside it, which results.py tells; its output is printed here. Exit status 0: all that
had failed have passed now.
"""
import json
import os
import re
import subprocess
import sys

STOLEN_MIN = 5
FAILED_MAX = 5
BAD = {'FAIL', 'TIMEOUT'}
FINDING = re.compile('ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:')


def is_no_matter_of_time(test):
    found = any(FINDING.search(test.get(key) or '') for key in ('stdout', 'stderr'))
    return found or (test['result'] == 'FAIL' and not 0 < test['returncode'] < 128)


def show(test):
    print(f"\nfailed at first: {test['name']}, after {test['duration']:.1f} s")
    for text in (test.get('stdout'), test.get('stderr')):
        for line in (text or '').splitlines()[-40:]:
            print(f'    {line}')


def passes(build, name, arguments):
    command = ['meson', 'test', '-C', build, '--logbase', 'again', *arguments, name]
    return subprocess.run(command, check=False).returncode == 0


def main():
    build, stolen, arguments = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    path = os.path.join(build, 'meson-logs', 'testlog.json')
    with open(path, encoding='utf-8', errors='replace') as f:
        tests = [json.loads(line) for line in f if line.strip()]
    failed = [test for test in tests if test['result'] in BAD]
    if stolen < STOLEN_MIN or not 0 < len(failed) <= FAILED_MAX:
        return 1
    for test in failed:
        show(test)
        if is_no_matter_of_time(test):
            continue
        if passes(build, test['name'].split(' / ')[-1], arguments):
            test['again'] = f"{test['result']} after {test['duration']:.1f} s, while {stolen:.0f} " \
                            '% of the processors were taken from this machine; passed alone'
            test['result'] = 'OK'
    with open(path, 'w', encoding='utf-8') as f:
        f.writelines(json.dumps(test) + '\n' for test in tests)
    return any(test['result'] in BAD for test in failed)


if __name__ == '__main__':
    sys.exit(main())
