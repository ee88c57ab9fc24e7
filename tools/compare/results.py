# SPDX-License-Identifier: BSD-3-Clause
"""RESULTS.md: the newest comparison of each machine, one section each. Only tools/compare/run --results
writes it; other changes to it are lost."""
import os
import re

import writing

HEAD = """\
# libringcomm compared with its peers

Written by `tools/compare/run --results tools/compare/RESULTS.md`: the newest comparison of each kind of
machine. The full report of a comparison, with intervals, all variants of the peers, the machine's
limits and charts, is in the folder given by `--out`.

Each cell has the time of libringcomm in microseconds, then the time of the best peer divided by it
(above 1: libringcomm is faster; `?`: fewer than three pairs of runs were undisturbed). Times are the
median over rounds of each round's median. They are the slowest rank's; if ranks share cores, from the
first rank in to the last one out. sendrecv is half a round trip. The last column is the geometric mean
of the ratios.
"""
SECTION = re.compile(r'^## (.+)$', re.MULTILINE)


def cell(verdict):
    if not verdict:
        return '-'
    return (f'{writing.number(verdict.ours[0])}, {verdict.ratio.median:.2f}'
            f'{"" if verdict.sure else "?"}')


def table(summary):
    verdicts = {v.point: v for v in summary.verdicts()}
    sizes = sorted({point.bytes for point in verdicts if point.bytes})
    rows = []
    for mean in summary.means():
        key = mean[:4]
        mine = {point.bytes: v for point, v in verdicts.items() if point[:4] == key}
        cells = [cell(mine.get(size)) for size in sizes]
        if 0 in mine:  # a barrier has no size
            cells[0] = cell(mine[0])
        rows.append([f'{mean.collective}, {mean.transport}, {mean.ranks} ranks'
                     f'{"" if mean.mode == "same" else ", " + mean.mode}', *cells,
                     f'{mean.ratio:.2f} ({mean.low:.2f} to {mean.high:.2f})'])
    return writing.table_lines(['', *map(writing.size_text, sizes), 'mean'], rows)


def section(machine, notes, summary):
    return '\n'.join([f'## {machine}', '', *notes, f'- {writing.counts_line(summary)}', '',
                      *table(summary), ''])


def sections(text):
    """Name of each machine -> its section."""
    starts = [m.start() for m in SECTION.finditer(text)] + [len(text)]
    parts = [text[a:b] for a, b in zip(starts, starts[1:])]
    return {SECTION.match(part)[1]: part.rstrip() + '\n' for part in parts}


def write(path, machine, notes, summary):
    """Replaces the comparison of the same machine."""
    old = ''
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            old = file.read()
    machines = {**sections(old), machine: section(machine, notes, summary)}
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join([HEAD, *machines.values()]))
