# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of measurements, one load after another, and the state of the machine around each.

A *load* is measured by one start of each library: one collective at a few sizes. In a *visit* of a
load all libraries measure it, one right after the other, in reverse order in every second round. The
cache line is measured between them. Each visit is stored immediately, so a run that ends early loses
at most one, and a later run continues from there."""
import collections
import csv
import math
import os
import resource
import sys
import time

import figures
from libraries import FOLDER, Failure, Late, bench, execute

LOAD_SIZES = 4          # largest number of sizes per start;
LOAD_LARGE = 4 << 20    # sizes above this have a start each
BURST_CALLS = 1000
SIZES = '4,1K,16K,128K,1M,8M,64M,256M'
SIZES_ASLEEP = '8,64,512,4K'
SIZES_BEFORE = '8,512,4K,32K,256K,2M,16M,64M'
# For two builds. A start has at most PAIR_SIZES sizes, whose numbers of iterations differ by at most
# a factor of PAIR_SPREAD. Each size takes about PAIR_US, which is short because there are many rounds.
PAIR_SIZES = 16
PAIR_SPREAD = 8
PAIR_US = 60e3
# With fewer iterations than this, --together is not used: it might discard all of them.
PAIR_TOGETHER = 50
START_SECONDS = 2.5     # typical duration of a start, for plans
# The kernel counts processor time in ticks; a short start must not be dropped because of them.
SPARE_TICKS = 2

RUN_COLUMNS = ['round', 'library', 'mode', 'ranks', 'transport', 'collective', 'bytes', 'algorithm',
               'iters', 'min_us', 'median_us', 'p99_us', 'span_us', 'errors', 'line_before_ns',
               'line_after_ns', 'foreign_share']
FAILURE_COLUMNS = ['round', 'library', 'mode', 'ranks', 'transport', 'collective', 'bytes', 'text']
# Start of the text for a peer that is too slow to be measured, which is a result and not a failure.
SLOW = 'too slow: '

BLOCKED = {'scatter', 'gather', 'all_gather', 'reduce_scatter', 'all_to_all'}

Load = collections.namedtuple('Load', 'mode ranks transport collective sizes')


# ---- what to measure -----------------------------------------------------------------------------


def parse_size(text):
    """A size, rounded up to whole floats; 0 if the text is not a size."""
    factor = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}.get(text[-1:].upper())
    try:
        number = int(text[:-1]) * factor if factor else int(text)
    except ValueError:
        number = 0
    return max(0, (number + 3) // 4 * 4)


def whole_blocks(sizes, collective, ranks):
    """The sizes; for a collective with a block per rank rounded up to whole floats in each block,
    like in ringcomm-bench."""
    if collective.removesuffix('_v') not in BLOCKED:
        return sizes
    block = 4 * ranks
    return sorted({(size + block - 1) // block * block for size in sizes})


def sizes_of(mode, options):
    """The sizes of the options, else the mode's default."""
    usual = SIZES_BEFORE if options.before else SIZES
    return options.sizes or parse_sizes(SIZES_ASLEEP if mode == 'asleep' else usual)


def parse_sizes(text):
    return sorted({parse_size(word) for word in text.split(',')})


def points_of(options):
    """All points selected by the options, in order."""
    points = []
    for mode in options.modes:
        for ranks in options.ranks:
            for transport in options.transports:
                for collective in options.collectives:
                    sizes = [0] if collective == 'barrier' else sizes_of(mode, options)
                    if mode == 'burst':
                        sizes = [8] if collective == 'all_reduce' and ranks == 2 else []
                    if mode == 'registered' and (collective, transport) != ('all_reduce', 'shm'):
                        sizes = []
                    if mode == 'fresh' and collective == 'barrier':
                        sizes = []  # a barrier has no input
                    points += [figures.Point(mode, ranks, transport, collective, size)
                               for size in whole_blocks(sizes, collective, ranks)]
    return points


def loads_of(points):
    """Groups the points to loads, in the same order."""
    loads = []
    for point in points:
        last = loads[-1] if loads else None
        if last and last[:4] == point[:4] and len(last.sizes) < LOAD_SIZES and \
                max(*last.sizes, point.bytes) <= LOAD_LARGE:
            loads[-1] = last._replace(sizes=last.sizes + (point.bytes,))
        else:
            loads.append(Load(*point[:4], (point.bytes,)))
    return loads


def pair_iterations(point):
    """The number of iterations that take about PAIR_US, by a rough model. Both builds must use the
    same number, but their programs may choose different ones."""
    a_few = 30 * point.ranks * (2 if point.transport == 'tcp' else 1)
    return round(min(1000, max(5, PAIR_US / (a_few + point.ranks * point.bytes / 3e3))))


def pair_loads_of(points):
    """Groups the points to loads of two builds: few starts, each with sizes of similar time."""
    loads = []
    for point in points:
        last = loads[-1] if loads else None
        if last and last[:4] == point[:4] and len(last.sizes) < PAIR_SIZES and \
                pair_iterations(load_points(last)[0]) <= PAIR_SPREAD * pair_iterations(point):
            loads[-1] = last._replace(sizes=last.sizes + (point.bytes,))
        else:
            loads.append(Load(*point[:4], (point.bytes,)))
    return loads


def pair_words(load, begin):
    """Command line words of ringcomm-bench for one of two builds."""
    if load.mode in ('asleep', 'burst'):
        return load_words(load, begin)
    ends = [pair_iterations(load_points(load)[i]) for i in (0, -1)]
    iters = round(math.sqrt(ends[0] * ends[1]))
    return load_words(load, begin if iters >= PAIR_TOGETHER else 'barrier') + ['-n', str(iters)]


def load_points(load):
    return [figures.Point(*load[:4], size) for size in load.sizes]


def load_words(load, begin):
    """Command line words of ringcomm-bench."""
    words = [load.collective, '--check-last']
    if load.mode == 'asleep':
        words.append('--asleep')
    elif begin == 'neutral':
        words += ['--neutral', f'{FOLDER}/begin']
    elif begin == 'together' and load.ranks <= (os.cpu_count() or 1):
        words.append('--together')
    if load.collective != 'barrier':
        words += ['--sizes', ','.join(map(str, load.sizes))]
    if load.mode == 'fresh':
        words.append('--fresh')
    if load.mode == 'registered':
        words.append('--registered')
    if load.mode == 'burst':
        words += ['--calls', str(BURST_CALLS)]
    return words


def load_text(load):
    sizes = ','.join(map(str, load.sizes))
    return f'{load.mode} {load.ranks} ranks {load.transport} {load.collective} {sizes}'


# ---- load of other programs ----------------------------------------------------------------------


def busy_seconds():
    """Processor time of all programs since boot, on all cores."""
    try:
        with open('/proc/stat', encoding='ascii') as file:
            user, nice, system = (int(f) for f in file.readline().split()[1:4])
        return (user + nice + system) / os.sysconf('SC_CLK_TCK')
    except (OSError, ValueError):
        return 0.0


def own_seconds():
    return sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


class Foreign:
    """The share of all cores that other programs have used since its creation."""

    def __init__(self):
        self.began, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def share(self, spare=0.0):
        """spare: seconds that are not counted."""
        seconds = max(time.monotonic() - self.began, 1e-3) * (os.cpu_count() or 1)
        others = busy_seconds() - self.busy - (own_seconds() - self.own)
        return max(0.0, (others - spare) / seconds)


class Floor:
    """The program `floor`, which measures the machine's limits."""

    def __init__(self, build):
        self.program = os.path.join(build, 'tools/compare/floor')

    def rows(self, *words):
        return list(csv.DictReader(execute([self.program, '--csv', '-', *words],
                                           seconds=150).splitlines()))

    def line(self):
        """The one-way time of a cache line now, in ns; 0 on a single core. The best of three,
        because a program that interrupts the measurement does not change the cores' distance."""
        rows = self.rows('line', '-r', '3')
        return float(rows[0]['min']) if rows else 0.0


# ---- measurements so far -------------------------------------------------------------------------


def read_results(path):
    """The results of one start, by (collective, bytes)."""
    results = {}
    with open(path, newline='', encoding='utf-8') as file:
        for row in csv.DictReader(file):
            results[row['collective'], int(row['bytes'])] = figures.Result(
                float(row['min_us']), float(row['median_us']), float(row['p99_us']),
                float(row['span_us'] or 'nan'), int(row['iters']), int(row['errors'] or 0),
                row['algorithm'])
    return results


def cut_to_lines(path):
    """Removes a partial last line, which a run leaves that was killed during a write."""
    with open(path, 'rb+') as file:
        content = file.read()
        file.truncate(content.rfind(b'\n') + 1)


class Book:
    """All measurements of a folder, in memory and in two CSV files, to which new ones are appended."""

    def __init__(self, folder):
        self.runs_path = os.path.join(folder, 'runs.csv')
        self.failures_path = os.path.join(folder, 'failures.csv')
        self.runs, self.failures = {}, {}
        for row in self.rows(self.runs_path, RUN_COLUMNS):
            self.keep(self.run_of(row))
        for row in self.rows(self.failures_path, FAILURE_COLUMNS):
            self.failures[int(row['round']), row['library'], self.point_of(row)] = row['text']

    @staticmethod
    def rows(path, columns):
        if not os.path.exists(path):
            return []
        cut_to_lines(path)
        with open(path, newline='', encoding='utf-8') as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        if rows and reader.fieldnames != columns:
            raise Failure(f'{path} has the columns of another version: use another --out')
        return rows

    @staticmethod
    def point_of(row):
        return figures.Point(row['mode'], int(row['ranks']), row['transport'], row['collective'],
                             int(row['bytes']))

    def run_of(self, row):
        result = figures.Result(*(float(row[k]) for k in ('min_us', 'median_us', 'p99_us',
                                                          'span_us')),
                                int(row['iters']), int(row['errors']), row['algorithm'])
        return figures.Run(int(row['round']), row['library'], self.point_of(row), result,
                           float(row['line_before_ns']), float(row['line_after_ns']),
                           float(row['foreign_share']))

    def keep(self, run):
        self.runs[run.round, run.library, run.point] = run

    @staticmethod
    def append(path, columns, rows):
        new = not os.path.exists(path) or os.path.getsize(path) == 0
        with open(path, 'a', newline='', encoding='utf-8') as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(columns)
            writer.writerows(rows)

    def add(self, runs, failures):
        """Adds a whole visit."""
        for run in runs:
            self.keep(run)
        self.append(self.runs_path, RUN_COLUMNS, [
            [r.round, r.library, *r.point, r.result.algorithm, r.result.iters, r.result.min,
             r.result.median, r.result.p99, r.result.span, r.result.errors, r.line_before,
             r.line_after, f'{r.foreign:.4f}'] for r in runs])
        if failures:
            self.failures.update(failures)
            self.append(self.failures_path, FAILURE_COLUMNS,
                        [[number, library, *point, ' '.join(text.split())]
                         for (number, library, point), text in failures.items()])

    def done(self, number, library, points):
        """Whether a library has measured, or failed at, all of these points in a round."""
        return all((number, library, p) in self.runs or (number, library, p) in self.failures
                   for p in points)

    def broken(self):
        """The texts of failures, each once."""
        return [text for text in dict.fromkeys(self.failures.values())
                if not text.startswith(SLOW)]

    def given_up(self, number, library, points):
        """Whether it failed there in two earlier rounds; then it is not tried again."""
        return sum(any((n, library, p) in self.failures for p in points)
                   for n in range(number)) >= 2


# ---- measuring -----------------------------------------------------------------------------------


class Comparison:
    def __init__(self, options, libraries, floor, book):
        self.options, self.libraries, self.floor, self.book = options, libraries, floor, book
        self.loads = pair_loads_of(options.points) if options.before else loads_of(options.points)
        self.hung = collections.Counter()
        self.patience = options.patience
        self.took = {}  # seconds of the last visit of a load

    def wait_for_quiet(self):
        """Waits until no other program computes for 0.1 s, or the patience is used up."""
        while self.patience > 0 and not self.options.beside:
            foreign, began = Foreign(), time.monotonic()
            time.sleep(0.1)
            if foreign.share() <= figures.FOREIGN:
                return
            self.patience -= time.monotonic() - began

    def summary(self):
        return figures.Summary(self.book.runs.values(), os.cpu_count() or 1)

    def able(self, number, load, summary):
        """The libraries that take part in a visit, in this round's order."""
        points = load_points(load)
        out = []
        for library in self.libraries if number % 2 == 0 else self.libraries[::-1]:
            ours = library.name in figures.BUILDS
            if load.transport not in library.transports or not library.measures(load.collective):
                continue
            if self.book.given_up(number, library.name, points):
                continue
            if not ours and load.mode in figures.ALONE:
                continue  # compared with the machine's limits only
            if not ours and self.options.prune > 0 and \
                    summary.hopeless(points, library.name, self.options.prune):
                continue
            out.append(library)
        return out

    def measure_one(self, library, load):
        words_of = pair_words if self.options.before else load_words
        results, ended = bench(library, load, words_of(load, self.options.begin), read_results,
                               self.options.load_seconds)
        if not ended:
            self.hung[library.title, load.transport] += 1
        wrong = {size: r.errors for (_, size), r in results.items() if r.errors}
        if wrong:
            raise Failure('wrong elements: ' + ', '.join(f'{n} of {s} bytes'
                                                         for s, n in wrong.items()))
        return results

    def visit(self, number, load, libraries):
        self.wait_for_quiet()
        runs, failures, before = [], {}, self.floor.line()
        for library in libraries:
            foreign = Foreign()
            try:
                results = self.measure_one(library, load)
            except Failure as failure:
                slow = isinstance(failure, Late) and library.name not in figures.BUILDS
                text = f'{SLOW if slow else ""}{library.title}, {load_text(load)}: {failure}'
                print(f'compare: {text}', file=sys.stderr)
                failures.update({(number, library.name, p): text for p in load_points(load)})
                results = {}
            after = self.floor.line()
            share = foreign.share(SPARE_TICKS / os.sysconf('SC_CLK_TCK'))
            share = 0.0 if self.options.beside else share
            for (collective, size), result in results.items():
                point = figures.Point(load.mode, load.ranks, load.transport, collective, size)
                runs.append(figures.Run(number, library.name, point, result, before, after, share))
            before = after
        self.book.add(runs, failures)

    def missing(self):
        """The remaining visits: (round, load). The libraries that take part may still change."""
        return [(number, load) for number in range(self.options.rounds) for load in self.loads
                if not self.book.done(number, figures.OURS, load_points(load)) and
                not self.book.given_up(number, figures.OURS, load_points(load))]

    def measure(self, deadline):
        """Returns the number of remaining visits."""
        missing = self.missing()
        for i, (number, load) in enumerate(missing):
            libraries = self.able(number, load, self.summary())
            took = self.took.get(load, START_SECONDS * len(libraries)) * 1.1
            if time.monotonic() + took >= deadline:
                return len(missing) - i
            began = time.monotonic()
            self.visit(number, load, libraries)
            self.took[load] = time.monotonic() - began
            if self.options.verbose:
                print(f'{i + 1} of {len(missing)}: round {number}, {load_text(load)}: '
                      f'{len(libraries)} libraries, {time.monotonic() - began:.1f} s',
                      file=sys.stderr, flush=True)
        return 0

    def plan(self):
        """A text about the remaining work, printed before the start."""
        missing, summary = self.missing(), self.summary()
        starts = sum(len(self.able(number, load, summary))
                     for number, load in missing[:len(self.loads)])
        rounds = len(missing) / max(1, len(self.loads))
        return (f'{len(self.options.points)} points in {len(self.loads)} loads, '
                f'{self.options.rounds} rounds; {len(missing)} visits ({rounds:.1f} rounds) '
                f'remain; the next {min(len(missing), len(self.loads))} have {starts} starts of a '
                f'library and take about {starts * START_SECONDS:.0f} s on a quiet machine')

