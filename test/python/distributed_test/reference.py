# SPDX-License-Identifier: BSD-3-Clause
"""gloo's results, and the tests that need not pass.

gloo-VERSION.txt has a line for each test: its name, then a result for each number of ranks.
exceptions.txt has lines "backend name, test: reason".
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def _path(version):
    return os.path.join(HERE, f'gloo-{".".join(version.split(".")[:2])}.txt')


def _lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [line.strip() for line in f if line.strip() and not line.startswith('#')]


def _table(version):
    """{ranks: {test: result}}"""
    lines = [line.split() for line in _lines(_path(version))]
    if not lines:
        return {}
    return {int(ranks): {words[0]: words[column] for words in lines[1:] if words[column] != '-'}
            for column, ranks in enumerate(lines[0]) if column > 0}


def read(version, ranks):
    return _table(version).get(ranks, {})


def write(version, ranks, results):
    table = _table(version)
    table[ranks] = {**table.get(ranks, {}), **results}
    columns = sorted(table)
    tests = sorted({test for column in columns for test in table[column]})
    with open(_path(version), 'w') as f:
        f.write(f'# Results of gloo itself, torch {version}; a column for each number of ranks. Written by\n'
                '#     test/python/distributed_test/run.py --reference --store --ranks N\n')
        for words in [['test', *map(str, columns)],
                      *([test, *(table[n].get(test, '-') for n in columns)] for test in tests)]:
            f.write(f'{words[0]:<80} ' + ' '.join(f'{word:<7}' for word in words[1:]).rstrip() + '\n')


def read_exceptions(name):
    """{test: reason} of a backend name."""
    found = {}
    for line in _lines(os.path.join(HERE, 'exceptions.txt')):
        key, _, reason = line.partition(': ')
        names, _, test = key.rpartition(' ')
        if name in names.replace(',', ' ').split():
            found[test] = reason
    return found
