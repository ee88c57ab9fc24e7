# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of the comparison: from measurements to ratios, intervals and verdicts.

This module does not measure, read or write, so that test/tools/results_test.py can test it with
made-up measurements and known results.

A *point* is one comparison: (mode, ranks, transport, collective, bytes). In each round all libraries
measure it, one right after the other. The ratio of a round is the other library's time divided by
libringcomm's. The times of a ratio are from one round, so slow phases of the machine affect both.
"""
import collections
import math
import random
import statistics

OURS = 'ringcomm'
BEFORE = 'before'  # another build of libringcomm
BUILDS = (OURS, BEFORE)
# The machine counts as in another state if a cache line is slower than the fastest by this factor.
FAR = 2.5
# The largest share of all cores that other programs may use during a measurement.
FOREIGN = 0.03
MIN_PAIRS = 3
# One-way times of a cache line, in ns, up to which ranks are near or at a middle distance; beyond
# they are far. And sizes up to which points are in one band.
NEAR_NS, MIDDLE_NS = 100, 200
LINES = ('near', 'middle', 'far')
BANDS = ((1 << 10, 'to 1 KiB'), (64 << 10, 'to 64 KiB'), (1 << 20, 'to 1 MiB'),
         (math.inf, 'above'))
# Iterations of ranks that sleep without which a median is little to go by.
LEAST_ASLEEP = 20
CONFIDENCE = 0.95
# The least number of pairs whose minimum and maximum enclose the median with CONFIDENCE.
SIGN_PAIRS = 6
# Student's t, two-sided 95 %, by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}

# The requirement for a point (issue "a fast core"): the interval is not below 1, and the median not
# below this.
LEAST_MEDIAN = 0.95
# The requirements for two builds: the geometric mean over sizes of before / now is at least the
# first, and no point's whole interval is below the second.
LEAST_MEAN = 0.90
LEAST_POINT = 0.80

Point = collections.namedtuple('Point', 'mode ranks transport collective bytes')
Result = collections.namedtuple('Result', 'min median p99 span iters errors algorithm')
Run = collections.namedtuple('Run', 'round library point result line_before line_after foreign')
Ratio = collections.namedtuple('Ratio', 'median low high pairs dropped method')
Verdict = collections.namedtuple('Verdict', 'point ours peer best ratio word sure')
Mean = collections.namedtuple('Mean', 'mode ranks transport collective ratio low high points goal')


Band = collections.namedtuple('Band', 'mode ranks transport collective line cells')
Change = collections.namedtuple('Change', 'point before now ratio sure')


# ---- intervals -----------------------------------------------------------------------------------


def sign_rank(n):
    """The largest k such that the k-th smallest and k-th largest of n values enclose the median of
    their distribution with CONFIDENCE; 0 if there is none."""
    tail, k = 0.0, 0
    while True:
        tail += math.comb(n, k) / 2 ** n
        if tail > (1 - CONFIDENCE) / 2:
            return k
        k += 1


def interval(ratios):
    """(low, high, method) of the median ratio.

    With at least SIGN_PAIRS ratios it uses order statistics (the inverted sign test). These are
    exact for every distribution; ratios on shared machines have wild outliers, and a bootstrap of
    so few values is too narrow. Fewer ratios cannot reach 95 % that way, so it uses Student's t of
    the logarithms, which assumes a normal distribution and gives wide intervals. One ratio has no
    interval."""
    n = len(ratios)
    if n >= SIGN_PAIRS:
        k = sign_rank(n)
        values = sorted(ratios)
        return values[k - 1], values[n - k], 'sign'
    if n < 2:
        return 0.0, math.inf, 'none'
    logs = [math.log(r) for r in ratios]
    half = STUDENT[n - 1] * statistics.stdev(logs) / math.sqrt(n)
    middle = statistics.mean(logs)
    return math.exp(middle - half), math.exp(middle + half), 't'


def ratio_of(ratios, dropped=0):
    low, high, method = interval(ratios)
    return Ratio(statistics.median(ratios), low, high, len(ratios), dropped, method)


def geometric_mean(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def bootstrap_mean(groups, draws=400, seed=1):
    """95 % interval of the geometric mean of the groups' medians, by a bootstrap: it draws from each
    group with repetition. Over many groups the errors of the medians average out."""
    rng = random.Random(seed)
    means = sorted(geometric_mean([statistics.median(rng.choices(g, k=len(g))) for g in groups])
                   for _ in range(draws))
    cut = int(draws * (1 - CONFIDENCE) / 2)
    return means[cut], means[-1 - cut]


def slope(points):
    """The slope of log y over log x, by least squares."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return math.nan
    mx, my = (statistics.mean(c) for c in zip(*logs))
    return sum((x - mx) * (y - my) for x, y in logs) / sum((x - mx) ** 2 for x, _ in logs)


# ---- verdicts ------------------------------------------------------------------------------------


def judge(ratio):
    """The verdict as one word. 'worse' and 'low' violate the requirement for a point."""
    if ratio.high < 1:
        return 'worse'
    if ratio.median < LEAST_MEDIAN:
        return 'low'
    if ratio.low > 1:
        return 'better'
    return 'even'


def goal_of(mode, ranks, transport, collective):
    """The goal for the geometric mean over sizes; None: no goal."""
    if mode == 'asleep':
        return 1.0 if transport == 'shm' else None
    if collective == 'all_reduce':
        return 2.0 if transport == 'shm' and ranks > 2 else 1.5
    return 1.2 if collective in ('broadcast', 'sendrecv') else None


class Summary:
    """All runs, by point and library."""

    def __init__(self, runs, cpus):
        self.cpus = cpus
        self.near = min((min(r.line_before, r.line_after) for r in runs), default=0.0)
        self.points = sorted({run.point for run in runs}, key=point_order)
        self.members, self.table, self.judged = {}, {}, None
        for run in runs:
            self.members.setdefault(run.point, {})[run.library] = None
            self.table.setdefault((run.point, run.library), {})[run.round] = run

    def state(self, run):
        """'near', 'far', or None if it changed during the run or other programs used the cores."""
        if run.foreign > FOREIGN:
            return None
        far = [ns > FAR * self.near for ns in (run.line_before, run.line_after)]
        return None if far[0] != far[1] else 'far' if far[0] else 'near'

    def time(self, run):
        """The slowest rank's time; if ranks share cores, the time from first in to last out, because
        a rank that got its core late measures a short time. (In mode asleep both are the latter.)"""
        shared = run.point.ranks > self.cpus
        return run.result.span if shared and run.result.span > 0 else run.result.median

    def libraries(self, point):
        return list(self.members.get(point, ()))

    def side(self, point, library):
        """(median over rounds, smallest of all iterations, algorithm)."""
        runs = list(self.table.get((point, library), {}).values())
        if not runs:
            return None
        return (statistics.median(self.time(r) for r in runs), min(r.result.min for r in runs),
                runs[-1].result.algorithm)

    def pairs(self, point, library):
        """(ratios to use, number of dropped ones, whether all used ones were undisturbed)."""
        ours, theirs = self.table.get((point, OURS), {}), self.table.get((point, library), {})
        rounds = sorted(set(ours) & set(theirs))
        good = [r for r in rounds
                if self.state(ours[r]) and self.state(ours[r]) == self.state(theirs[r])]
        sure = len(good) >= MIN_PAIRS
        kept = good if sure else rounds
        return ([self.time(theirs[r]) / self.time(ours[r]) for r in kept
                 if self.time(ours[r]) > 0 and self.time(theirs[r]) > 0],
                len(rounds) - len(good), sure)

    def ratio(self, point, library):
        ratios, dropped, _ = self.pairs(point, library)
        return ratio_of(ratios, dropped) if ratios else None

    def best(self, point):
        """The library with the smallest ratio to libringcomm. One that was measured less often than
        others (left out because it was far behind) counts only if there is no other."""
        counts = {lib: len(self.pairs(point, lib)[0]) for lib in self.libraries(point)
                  if lib != OURS}
        most = max(counts.values(), default=0)
        if most == 0:
            return None
        able = [lib for lib, n in counts.items() if n >= min(MIN_PAIRS, most)]
        return min(able, key=lambda lib: statistics.median(self.pairs(point, lib)[0]))

    def verdict(self, point):
        ours, best = self.side(point, OURS), self.best(point)
        if not ours or not best:
            return None
        ratio = self.ratio(point, best)
        return Verdict(point, ours, best, self.side(point, best), ratio, judge(ratio),
                       self.pairs(point, best)[2])

    def verdicts(self):
        if self.judged is None:
            self.judged = [v for v in map(self.verdict, self.points) if v]
        return self.judged

    def means(self):
        groups = {}
        for v in self.verdicts():
            key = v.point[:4]
            groups.setdefault(key, []).append(v)
        return [self.mean(key, group) for key, group in groups.items()]

    def mean(self, key, group):
        mode, ranks, transport, collective = key
        low, high = bootstrap_mean([self.pairs(v.point, v.peer)[0] for v in group])
        return Mean(mode, ranks, transport, collective,
                    geometric_mean([v.ratio.median for v in group]), low, high, len(group),
                    goal_of(*key))

    def line_of(self, run):
        """One of LINES, or None where the machine changed on the way or others were computing."""
        def distance(ns):
            return LINES[(ns >= NEAR_NS) + (ns > MIDDLE_NS)]
        before, after = distance(run.line_before), distance(run.line_after)
        return before if before == after and run.foreign <= FOREIGN else None

    def line_ratio(self, point, library, line):
        """Median of the paired ratios in this state; None without pairs."""
        ours, theirs = self.table.get((point, OURS), {}), self.table.get((point, library), {})
        ratios = [self.time(theirs[r]) / self.time(ours[r]) for r in set(ours) & set(theirs)
                  if self.line_of(ours[r]) == self.line_of(theirs[r]) == line]
        return statistics.median(ratios) if ratios else None

    def band_cell(self, points, line):
        """(best peer, geometric mean, points) of points of one collective, or None. The best peer is
        the one with the smallest mean; it must have as many points as any."""
        means = {}
        for library in {lib for p in points for lib in self.libraries(p)} - {OURS}:
            ratios = [r for r in (self.line_ratio(p, library, line) for p in points) if r]
            if ratios:
                means[library] = (geometric_mean(ratios), len(ratios))
        most = max((n for _, n in means.values()), default=0)
        able = {lib: mean for lib, (mean, n) in means.items() if n == most}
        if not able:
            return None
        best = min(able, key=able.get)
        return best, able[best], most

    def bands(self):
        """Means by state of the cache line and by band of sizes, the whole first."""
        groups = {}
        for point in self.points:
            groups.setdefault(point[:4], []).append(point)
        out = []
        for key, points in groups.items():
            for line in LINES:
                cells, low = [self.band_cell(points, line)], -1
                for high, _ in BANDS:
                    cells.append(self.band_cell([p for p in points if low < p.bytes <= high], line))
                    low = high
                if cells[0]:
                    out.append(Band(*key, line, cells))
        return out

    def changes(self):
        """All points that both builds have measured."""
        out = []
        for point in self.points:
            ratio = self.ratio(point, BEFORE)
            if ratio:
                out.append(Change(point, self.side(point, BEFORE), self.side(point, OURS), ratio,
                                  self.pairs(point, BEFORE)[2]))
        return out

    def change_means(self):
        groups = {}
        for change in self.changes():
            groups.setdefault(change.point[:4], []).append(change)
        out = []
        for key, group in groups.items():
            low, high = bootstrap_mean([self.pairs(c.point, BEFORE)[0] for c in group])
            out.append(Mean(*key, geometric_mean([c.ratio.median for c in group]), low, high,
                            len(group), LEAST_MEAN))
        return out

    def slower(self):
        """The points that are slower by their whole interval."""
        return [change for change in self.changes() if change.ratio.high < LEAST_POINT]

    def hopeless(self, points, library, factor):
        """Whether a library is so far behind the best at each of these points that further
        measurements cannot change a verdict."""
        for point in points:
            mine = self.pairs(point, library)[0]
            others = [statistics.median(self.pairs(point, lib)[0])
                      for lib in self.libraries(point)
                      if lib not in (OURS, library) and self.pairs(point, lib)[0]]
            if not mine or not others or statistics.median(mine) <= factor * min(others):
                return False
        return bool(points)


MODES = ('same', 'fresh', 'burst', 'registered', 'asleep')
ALONE = ('burst', 'registered')  # measured with libringcomm only
COLLECTIVES = ('all_reduce', 'broadcast', 'barrier', 'sendrecv', 'reduce', 'scatter', 'gather',
               'all_gather', 'reduce_scatter', 'all_to_all', 'scan', 'exscan', 'scatter_v', 'gather_v',
               'all_gather_v', 'reduce_scatter_v', 'all_to_all_v')
USUAL = COLLECTIVES[:4]  # the default of --collectives


def point_order(point):
    return (MODES.index(point.mode), point.ranks, point.transport,
            COLLECTIVES.index(point.collective), point.bytes)


# ---- comparison with the limits ------------------------------------------------------------------


Limit = collections.namedtuple('Limit', 'what ours limit factor allowed unit basis')


def limits(summary, floor):
    """Compares the measured figures of libringcomm with the machine's limits. `floor` returns the
    figure of (what, how, cores, bytes), or None."""
    out = []
    mib = 1 << 20

    def ours(mode, transport, collective, *sizes):
        sides = [summary.side(Point(mode, 2, transport, collective, s), OURS) for s in sizes]
        return next((side[0] for side in sides if side), None)

    def add(what, time, limit, allowed, basis):
        if time and limit:
            out.append(Limit(what, time, limit, time / limit, allowed, 'us', basis))

    traffic = floor('traffic', 'c = a + b, non-temporal stores', 2, 64 * mib)
    size = 256 * mib
    if traffic:
        # Two ranks read the operands of their half, and write the results twice: 2 R n bytes.
        add('all_reduce shm 256 MiB, plain memory', ours('same', 'shm', 'all_reduce', size),
            2 * 2 * size / (traffic * 1e3), 1.6,
            '2 R n bytes at the two cores\' traffic of c = a + b, non-temporal stores')
        add('all_reduce shm 256 MiB, memory of rcm_mem_alloc',
            ours('registered', 'shm', 'all_reduce', size), 2 * 2 * size / (traffic * 1e3), 1.3,
            'the same')
    adds = [floor('c = a + b', how, 2, mib) for how in ('float32', 'float32, non-temporal stores')]
    copies = [floor('copy', how, 2, mib) for how in ('memcpy', 'non-temporal stores')]
    if all(adds) and all(copies):
        add('all_reduce shm 1 MiB', ours('same', 'shm', 'all_reduce', mib),
            mib / (max(adds) * 1e3) + mib / (max(copies) * 1e3), 1.5,
            'half of the sums and a copy of the other half on each core, without waiting')
        add('all_reduce shm 1 MiB, memory of rcm_mem_alloc',
            ours('registered', 'shm', 'all_reduce', mib),
            mib / (max(adds) * 1e3) + mib / (max(copies) * 1e3), 1.5, 'the same')
    line = floor('cache line', 'one line, both write it', 2, 0)
    if line:
        add('all_reduce shm 8 B, 1,000 calls in a row', ours('burst', 'shm', 'all_reduce', 8),
            (4 * line + 60) / 1e3, 1.0, '4 cache lines one way + 60 ns')
    both = floor('tcp loopback', 'streams, both directions, sum', 2, 64 * mib)
    if both:
        add('all_reduce tcp 64 MiB', ours('same', 'tcp', 'all_reduce', 64 * mib),
            2 * 64 * mib / (both * 1e3), 1.3, 'as many bytes through a bare pair of sockets')
    trip = floor('tcp loopback', 'one way, spinning', 2, 8)
    if trip:
        add('all_reduce tcp 8 B', ours('same', 'tcp', 'all_reduce', 8, 4), trip, 1.5,
            'a spinning ping-pong, one way')
        add('sendrecv tcp 8 B', ours('same', 'tcp', 'sendrecv', 8, 4), trip, 1.5,
            'a spinning ping-pong, one way')
    return out
