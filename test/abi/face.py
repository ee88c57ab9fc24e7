#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that a row of the public API has tests: face.py ROW TABLE MAP TEST_FOLDER INTRO_TESTS

TABLE is face.txt. Every function of MAP is in exactly one row. Each function of ROW is called by a source in
TEST_FOLDER other than forked.c, which calls all functions. Every test pattern of the row matches a test of the
build (meson's intro-tests.json). The tests themselves are not run.
"""
import fnmatch
import json
import os
import re
import sys


def rows(path):
    """Name of each row -> {'functions': patterns, 'tests': patterns}."""
    found, row = {}, None
    with open(path, encoding='utf-8') as f:
        for line in f:
            words = line.split()
            if not words or words[0].startswith('#'):
                continue
            if line[0].isspace():
                row[words[0]] += words[1:]
            else:
                row = found.setdefault(line.strip(), {'functions': [], 'tests': []})
    return found


def matching(names, patterns):
    return {name for name in names for pattern in patterns if fnmatch.fnmatchcase(name, pattern)}


def called(folder):
    """All names rcm_... in sources below folder."""
    found = set()
    for path, _, names in os.walk(folder):
        for name in names:
            if name.endswith(('.c', '.h')) and name != 'forked.c':
                with open(os.path.join(path, name), encoding='utf-8') as f:
                    found |= set(re.findall(r'\b(rcm_\w+)\b', f.read()))
    return found


def check_table(table, functions):
    for name in sorted(functions):
        owners = [row for row, has in table.items() if matching({name}, has['functions'])]
        if len(owners) != 1:
            yield f'{name} is in {len(owners)} rows: {", ".join(owners)}'


def check_row(row, functions, folder, tests):
    own = matching(functions, row['functions'])
    if not own:
        yield 'the row has no function'
    for name in sorted(own - called(folder)):
        yield f'only forked.c calls {name}'
    for pattern in row['tests']:
        if not matching(tests, [pattern]):
            yield f'no test matches {pattern}'
    print(f'{len(own)} functions, {len(matching(tests, row["tests"]))} tests')


def main():
    name, table_path, map_path, folder, intro = sys.argv[1:]
    table = rows(table_path)
    with open(map_path, encoding='utf-8') as f:
        functions = set(re.findall(r'^\s+(rcm_\w+);', f.read(), re.M))
    with open(intro, encoding='utf-8') as f:
        tests = {test['name'] for test in json.load(f)}
    wrong = list(check_table(table, functions)) + list(
        check_row(table[name], functions, folder, tests))
    for text in wrong:
        print(f'{name}: {text}')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
