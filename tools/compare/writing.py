# SPDX-License-Identifier: BSD-3-Clause
"""The output of a comparison: CSV files, a report in Markdown, charts."""
import csv
import math
import os
import statistics

import figures
import svg


def number(value):
    """A number with three significant digits."""
    if value is None or math.isnan(value):
        return '-'
    if value >= 1000:
        return f'{value:,.0f}'
    return f'{value:.3g}' if value < 100 else f'{value:.0f}'


def size_text(size):
    for shift, unit in ((20, 'MiB'), (10, 'KiB')):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f'{size >> shift} {unit}'
    return f'{size} B' if size else '-'


def write_csv(path, header, rows):
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def table_lines(header, rows):
    align = ['---' if i == 0 else '---:' for i in range(len(header))]
    return ['| ' + ' | '.join(row) + ' |' for row in [header, align, *rows]]


# ---- CSV -----------------------------------------------------------------------------------------


def write_summary(path, summary):
    """Writes a row per point and peer; `best` marks the peer of the verdict."""
    rows = []
    for v in summary.verdicts():
        for library in summary.libraries(v.point):
            ratio = summary.ratio(v.point, library) if library != figures.OURS else None
            side = summary.side(v.point, library)
            if ratio:
                rows.append([*v.point, library, int(library == v.peer), f'{v.ours[0]:.3f}',
                             f'{side[0]:.3f}', f'{ratio.median:.4f}', f'{ratio.low:.4f}',
                             f'{ratio.high:.4f}', ratio.method, ratio.pairs, ratio.dropped,
                             figures.judge(ratio), int(summary.pairs(v.point, library)[2])])
    write_csv(path, [*figures.Point._fields, 'peer', 'best', 'ours_us', 'peer_us', 'ratio', 'low',
                     'high', 'interval', 'pairs', 'dropped', 'verdict', 'sure'], rows)


def write_means(path, means):
    write_csv(path, figures.Mean._fields,
              [[*m[:4], f'{m.ratio:.4f}', f'{m.low:.4f}', f'{m.high:.4f}', m.points, m.goal or '']
               for m in means])


def write_changes(path, summary):
    """Writes a row per point that both builds have measured."""
    write_csv(path, [*figures.Point._fields, 'before_us', 'now_us', 'ratio', 'low', 'high',
                     'interval', 'pairs', 'dropped', 'sure'],
              [[*c.point, f'{c.before[0]:.3f}', f'{c.now[0]:.3f}', f'{c.ratio.median:.4f}',
                f'{c.ratio.low:.4f}', f'{c.ratio.high:.4f}', c.ratio.method, c.ratio.pairs,
                c.ratio.dropped, int(c.sure)] for c in summary.changes()])


# ---- tables --------------------------------------------------------------------------------------


def mark(verdict):
    return ('*' if verdict.ratio.dropped else '') if verdict.sure else '?'


def ratio_text(verdict):
    ratio = verdict.ratio
    low = f'{ratio.low:.2f}' if ratio.low > 0 else '-'
    high = f'{ratio.high:.2f}' if ratio.high < 1e4 else '-'
    return f'{ratio.median:.2f} ({low} to {high}){mark(verdict)}'


def verdict_text(verdict):
    word = verdict.word + ('' if verdict.sure else '?')
    return f'**{word}**' if verdict.word in ('worse', 'low') else word


def points_table(summary, key, titles):
    rows = []
    for v in summary.verdicts():
        if v.point[:3] != key:
            continue
        rest = [f'{titles.get(lib, lib)} {number(summary.side(v.point, lib)[0])}'
                for lib in summary.libraries(v.point) if lib not in (figures.OURS, v.peer)]
        rows.append([v.point.collective, size_text(v.point.bytes),
                     f'{number(v.ours[0])} ({number(v.ours[1])})', v.ours[2],
                     titles.get(v.peer, v.peer), f'{number(v.best[0])} ({number(v.best[1])})',
                     ratio_text(v), str(v.ratio.pairs), verdict_text(v), '; '.join(rest) or '-'])
    return table_lines(['operation', 'size', 'libringcomm', 'algorithm', 'best peer', 'its time',
                        'ratio', 'pairs', 'verdict', 'others'], rows) if rows else []


def means_table(means):
    rows = []
    for m in means:
        word = '-' if not m.goal else 'reached' if m.ratio >= m.goal else '**missed**'
        rows.append([f'{m.mode}, {m.ranks} ranks, {m.transport}', m.collective,
                     f'{m.ratio:.2f} ({m.low:.2f} to {m.high:.2f})', str(m.points),
                     f'{m.goal}' if m.goal else '-', word])
    return table_lines(['inputs, ranks, transport', 'operation', 'geometric mean', 'points', 'goal',
                        ''], rows)


def bands_table(summary, titles):
    def cell(c):
        return f'{c[1]:.2f} ({titles.get(c[0], c[0])}, {c[2]})' if c else '-'
    rows = [[f'{b.mode}, {b.ranks} ranks, {b.transport}', b.collective, b.line,
             *map(cell, b.cells)] for b in summary.bands()]
    return table_lines(['inputs, ranks, transport', 'operation', 'cores', 'all sizes',
                        *(name for _, name in figures.BANDS)], rows) if rows else []


def counts_line(summary):
    verdicts = summary.verdicts()
    words = [f'{sum(v.word == word for v in verdicts)} {word}'
             for word in ('better', 'even', 'low', 'worse')]
    unsure = sum(not v.sure for v in verdicts)
    return (f'{len(verdicts)} points: {", ".join(words)}; {unsure} of these without '
            f'{figures.MIN_PAIRS} undisturbed pairs')


def floor_median(rows):
    """A function that returns the figure of (what, how, cores, bytes): the median of all
    measurements."""
    table = {}
    for row in rows:
        key = row['what'], row['how'], int(row['cores']), int(row['bytes'] or 0)
        table.setdefault(key, []).append(float(row['median']))

    def look(*key):
        return statistics.median(table[key]) if key in table else None
    return look


def floor_table(rows):
    table = {}
    for row in rows:
        key = (f"{row['what']}, {row['how']}",
               size_text(int(row['bytes'])) if row['bytes'] else '-', row['cores'], row['unit'])
        table.setdefault(key, []).append(row)
    header = ['what', 'size', 'cores', 'unit', 'median', 'smallest to largest', 'measurements']
    return table_lines(header, [
        [*key, f"{statistics.median(float(r['median']) for r in group):.2f}",
         f"{min(float(r['min']) for r in group):.2f} to {max(float(r['max']) for r in group):.2f}",
         str(len(group))] for key, group in table.items()])


def limits_table(summary, rows):
    return table_lines(['what', 'ours, us', 'limit, us', 'factor', 'allowed', '', 'the limit is'], [
        [lim.what, number(lim.ours), number(lim.limit), f'{lim.factor:.2f}', f'{lim.allowed}',
         'reached' if lim.factor <= lim.allowed else '**missed**', lim.basis]
        for lim in figures.limits(summary, floor_median(rows))])


def changes_table(changes):
    rows = [[f'{c.point.mode}, {c.point.ranks} ranks, {c.point.transport}', c.point.collective,
             size_text(c.point.bytes), number(c.before[0]), c.before[2], number(c.now[0]), c.now[2],
             ratio_text(c), str(c.ratio.pairs)] for c in changes]
    return table_lines(['inputs, ranks, transport', 'operation', 'size', 'before, us', 'algorithm',
                        'now, us', 'algorithm', 'before / now', 'pairs'], rows)


# ---- charts --------------------------------------------------------------------------------------


def draw(folder, summary, titles):
    """Draws the charts; returns the names of the files."""
    verdicts, names = summary.verdicts(), []
    for key in dict.fromkeys(v.point[:3] for v in verdicts):
        mode, ranks, transport = key
        mine = [v for v in verdicts if v.point[:3] == key and v.point.bytes > 0]
        stem = f'{mode}-{ranks}-{transport}'
        lines = [svg.Line(c, [(v.point.bytes, v.ratio.median, max(v.ratio.low, 1e-2),
                               min(v.ratio.high, 1e2)) for v in mine if v.point.collective == c])
                 for c in figures.COLLECTIVES]
        if svg.chart(os.path.join(folder, f'ratio-{stem}.svg'),
                     f'Best peer\'s time by libringcomm\'s: {ranks} ranks, {transport}, {mode} '
                     f'inputs', ('bytes', 'ratio (above 1: libringcomm is faster)'), lines, 1.0):
            names.append(f'ratio-{stem}.svg')
        names += draw_times(folder, summary, mine, key, titles)
    return names


def draw_times(folder, summary, verdicts, key, titles):
    mode, ranks, transport = key
    names = []
    for collective in dict.fromkeys(v.point.collective for v in verdicts):
        lines = {}
        for v in verdicts:
            if v.point.collective != collective:
                continue
            for lib in summary.libraries(v.point):
                lines.setdefault(lib, []).append((v.point.bytes, summary.side(v.point, lib)[0]))
        ordered = sorted(lines, key=lambda lib: lib != figures.OURS)
        name = f'time-{mode}-{ranks}-{transport}-{collective}.svg'
        if svg.chart(os.path.join(folder, name),
                     f'{collective}: {ranks} ranks, {transport}, {mode} inputs',
                     ('bytes', 'microseconds'),
                     [svg.Line(titles.get(lib, lib), lines[lib]) for lib in ordered]):
            names.append(name)
    return names


# ---- the report ----------------------------------------------------------------------------------


HOW_TO_READ = """\
Times are in microseconds: the median over rounds of each round's median, and in brackets the
fastest iteration of all. An iteration begins with the library's own barrier. Then ranks that have a
core each wait for the same time of the clock (not with --begin barrier). The time of an iteration is
the slowest rank's. If ranks share cores, it is the time from the first rank in to the last rank out,
because a rank that got its core late measures a short time. sendrecv is half a round trip between
ranks 0 and 1.

The ratio is the time of the best peer at this point (any variant) divided by libringcomm's; above 1
libringcomm is faster. It is the median over rounds of the ratio within each round, with a 95 %
interval from order statistics (6 pairs or more) or from Student's t. Pairs were dropped (`*`) if the
machine's state differed (by the cache line's time before and after), or other programs used over 3 %
of the cores. With fewer than 3 pairs left, all are used and the verdict has a `?`. better: the
interval is above 1. even: it is not. low: the median is below 0.95. worse: the interval is below 1. A
variant that is far behind the best at all points of a load is left out of later rounds. The results
of each last iteration were compared element by element on every rank.

Modes: same: the inputs are the same in all iterations. fresh: they are written anew before each
iteration, untimed. burst: 1,000 calls in a row without barriers, divided by 1,000. registered: in
memory that the ranks map. asleep: same inputs, no barrier; ranks sleep until a common time of the
clock between iterations and are not bound; times are from the first rank that woke to the last one
out.
"""


BANDS_TEXT = f"""\
A cache line took less than {figures.NEAR_NS} ns one way before and after the measurement (near), up to
{figures.MIDDLE_NS} ns (middle), or more (far). Each cell is the geometric mean over the points of a band,
with the best peer of that band and the number of points.
"""


def report(notes, summary, titles, floor_rows, charts):
    out = ['# libringcomm, its peers and the machine\n', *notes, f'- {counts_line(summary)}',
           '', HOW_TO_READ, '## Geometric means over sizes\n', *means_table(summary.means()), '',
           '## By distance of the cores and by size\n', BANDS_TEXT,
           *bands_table(summary, titles), '']
    for key in dict.fromkeys(p[:3] for p in summary.points):
        lines = points_table(summary, key, titles)
        if lines:
            out += [f'## {key[2]}, {key[1]} ranks, {key[0]} inputs\n', *lines, '']
    if floor_rows:
        out += ['## Limits\n', *limits_table(summary, floor_rows), '',
                '## The machine\n', *floor_table(floor_rows), '']
    if charts:
        out += ['Charts: ' + ', '.join(f'[{name}](plots/{name})' for name in charts), '']
    return '\n'.join(out)


# ---- the report about two builds -----------------------------------------------------------------


HOW_TO_READ_BUILDS = """\
Times are in microseconds: the median over rounds of each round's median. They are the slowest
rank's; if ranks share cores or sleep, from the first rank in to the last one out. sendrecv is half a
round trip. The ratio is the time before divided by the time now; above 1 the new build is faster. It
is the median over rounds of the ratio within each round, with a 95 % interval from order statistics
(6 pairs or more) or from Student's t. Pairs were dropped (`*`) if the machine's state differed, or
other programs used over 3 % of the cores. With fewer than 3 pairs left, all are used, marked by `?`.
The intervals of geometric means are from a bootstrap. The results of each last iteration were
compared element by element on every rank.
"""


def mean_name(mean):
    return f'{mean.collective} {mean.transport} {mean.ranks} ranks {mean.mode} {mean.ratio:.2f}'


def builds_verdict(means):
    """Pass or fail, as one line."""
    if not means:
        return 'Nothing has been measured yet.'
    least = f'{figures.LEAST_MEAN:.2f}'
    missed = [mean_name(m) for m in means if m.ratio < figures.LEAST_MEAN]
    if missed:
        return f'**FAIL**: {len(missed)} of {len(means)} geometric means are below {least}: ' + \
            '; '.join(missed)
    return f'**PASS**: all {len(means)} geometric means are at least {least}'


def builds_report(notes, summary):
    changes, means, slower = summary.changes(), summary.change_means(), summary.slower()
    unsure = sum(not c.sure for c in changes)
    out = ['# libringcomm before and now\n', *notes,
           f'- {len(changes)} points; {unsure} of these without {figures.MIN_PAIRS} undisturbed '
           f'pairs', '', builds_verdict(means), '',
           f'Points whose whole interval is below {figures.LEAST_POINT:.2f}: '
           f'{len(slower) or "none"}', '']
    if slower:
        out += [*changes_table(slower), '']
    out += [HOW_TO_READ_BUILDS, '## Geometric means over sizes\n', *means_table(means), '',
            '## Points\n', *changes_table(changes), '']
    return '\n'.join(out)
