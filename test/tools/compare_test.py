# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the evaluation in tools/compare with made-up measurements: known ratios give known
intervals and verdicts. With a build folder also short runs of the tools, whose figures are not
judged. Usage: compare_test.py TOOLS_COMPARE BUILD_OR_- [TestClass[.test] ...]"""
import argparse
import contextlib
import csv
import glob
import importlib.machinery
import io
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.dont_write_bytecode = True
FOLDER = os.path.abspath(sys.argv[1])
BUILD = None if sys.argv[2] == '-' else os.path.abspath(sys.argv[2])
sys.path.insert(0, FOLDER)

# pylint: disable=wrong-import-position,import-error
import builds
import figures
import libraries
import measuring
import peers
import results
import svg
import writing

POINT = figures.Point('same', 2, 'shm', 'all_reduce', 8)


def load_script(name):
    """Loads a program without the suffix .py."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(FOLDER, name))
    module = types.ModuleType(name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def run_of(number, library, time, point=POINT, line=30.0, foreign=0.0, span=None, after=None):
    result = figures.Result(time * 0.9, time, time * 2, span or time, 100, 0, 'ring')
    return figures.Run(number, library, point, result, line, after or line, foreign)


def runs_of(times, point=POINT, **more):
    """times: by library, a list by round."""
    return [run_of(i, lib, t, point, **more) for lib, ts in times.items()
            for i, t in enumerate(ts)]


def summary_of(times, point=POINT, cpus=2, **more):
    return figures.Summary(runs_of(times, point, **more), cpus)


class Intervals(unittest.TestCase):
    def test_order_statistics(self):
        # From tables of the binomial distribution: which of n values enclose the median.
        for n, k in ((6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (30, 10), (100, 40)):
            self.assertEqual(figures.sign_rank(n), k, n)
        for n in range(1, 6):
            self.assertEqual(figures.sign_rank(n), 0, n)

    def test_known_values(self):
        ratio = figures.ratio_of([3, 1, 2, 6, 5, 4])
        self.assertEqual(ratio[:4], (3.5, 1, 6, 6))
        self.assertEqual(ratio.method, 'sign')
        ratio = figures.ratio_of([9, 1, 8, 2, 7, 3, 6, 4, 5])
        self.assertEqual(ratio[:4], (5, 2, 8, 9))

    def test_few_pairs(self):
        self.assertEqual(figures.ratio_of([1.5])[:3], (1.5, 0.0, math.inf))
        ratio = figures.ratio_of([1.0, math.e ** 2])  # logs 0 and 2: mean 1, half 12.706
        self.assertAlmostEqual(math.log(ratio.low), 1 - 12.706, places=3)
        self.assertAlmostEqual(math.log(ratio.high), 1 + 12.706, places=3)
        self.assertEqual(ratio.method, 't')
        same = figures.ratio_of([1.2] * 4)
        self.assertAlmostEqual(same.low, 1.2)
        self.assertAlmostEqual(same.high, 1.2)

    def test_coverage(self):
        # The true median must be inside in 95 % of 2,000 draws or slightly more.
        rng = random.Random(7)
        for n, least, most in ((4, 0.92, 0.98), (6, 0.95, 0.99), (9, 0.94, 0.99),
                               (15, 0.94, 0.99)):
            inside = 0
            for _ in range(2000):
                ratio = figures.ratio_of([1.3 * math.exp(rng.gauss(0, 0.2)) for _ in range(n)])
                inside += ratio.low <= 1.3 <= ratio.high
            self.assertTrue(least <= inside / 2000 <= most, (n, inside / 2000))

    def test_outlier_does_not_move_it(self):
        calm = [1.5, 1.52, 1.48, 1.51, 1.49, 1.5, 1.53, 1.47, 1.5]
        ratio = figures.ratio_of(calm[:-1] + [40.0])
        self.assertLess(ratio.high, 1.55)
        self.assertGreater(ratio.low, 1.45)

    def test_slope(self):
        line = [(n, 3 * n ** 1.5) for n in (2, 4, 8, 16, 64)]
        self.assertAlmostEqual(figures.slope(line), 1.5)
        self.assertAlmostEqual(figures.slope([(n, 7.0) for n in (2, 4, 8)]), 0)
        self.assertTrue(math.isnan(figures.slope([(2, 1.0)])))


class Verdicts(unittest.TestCase):
    def word(self, ours, theirs):
        return summary_of({'ringcomm': ours, 'mpich': theirs}).verdict(POINT).word

    def test_words(self):
        ours = [1.0] * 6
        self.assertEqual(self.word(ours, [1.2, 1.3, 1.1, 1.2, 1.25, 1.15]), 'better')
        self.assertEqual(self.word(ours, [1.2, 1.3, 1.1, 0.99, 1.25, 1.15]), 'even')
        self.assertEqual(self.word(ours, [0.97, 1.02, 0.98, 0.96, 0.99, 0.98]), 'even')
        self.assertEqual(self.word(ours, [0.97, 0.99, 0.98, 0.96, 0.99, 0.98]), 'worse')
        self.assertEqual(self.word(ours, [0.9, 1.5, 0.9, 0.9, 0.8, 1.1]), 'low')

    def test_pairs_take_out_what_both_feel(self):
        # The machine is ten times slower in some rounds; the ratio is 1.25 in each.
        pace = [1, 10, 1, 3, 7, 1, 2]
        v = summary_of({'ringcomm': pace, 'mpich': [p * 1.25 for p in pace]}).verdict(POINT)
        self.assertAlmostEqual(v.ratio.low, 1.25)
        self.assertAlmostEqual(v.ratio.high, 1.25)
        self.assertEqual(v.word, 'better')

    def test_best_of_all_variants(self):
        s = summary_of({'ringcomm': [2.0] * 6, 'openmpi': [3.0] * 6, 'openmpi-sm': [1.0] * 6,
                        'mpich': [9.0] * 6})
        v = s.verdict(POINT)
        self.assertEqual((v.peer, v.word), ('openmpi-sm', 'worse'))
        self.assertAlmostEqual(v.ratio.median, 0.5)

    def test_rarely_measured_is_not_the_best_by_luck(self):
        s = summary_of({'ringcomm': [1.0] * 6, 'openmpi': [1.5] * 6, 'gloo': [1.2]})
        self.assertEqual(s.verdict(POINT).peer, 'openmpi')

    def test_no_peer_no_verdict(self):
        self.assertEqual(summary_of({'ringcomm': [1.0] * 6}).verdicts(), [])

    def test_span_where_ranks_share_cores(self):
        for ranks, ratio in ((2, 1.0), (4, 3.0)):
            point = POINT._replace(ranks=ranks)
            runs = [run_of(i, lib, 1.0, point, span=span) for i in range(6)
                    for lib, span in (('ringcomm', 2.0), ('mpich', 6.0))]
            self.assertAlmostEqual(figures.Summary(runs, 2).verdict(point).ratio.median, ratio)

    def test_hopeless(self):
        other = POINT._replace(bytes=64)
        runs = runs_of({'ringcomm': [1.0], 'openmpi': [1.0], 'mpich': [5.0], 'gloo': [5.0]}) + \
            runs_of({'ringcomm': [1.0], 'openmpi': [1.0], 'mpich': [1.5], 'gloo': [9.0]}, other)
        s = figures.Summary(runs, 2)
        self.assertTrue(s.hopeless([POINT, other], 'gloo', 2))
        self.assertFalse(s.hopeless([POINT, other], 'mpich', 2))  # it may win at 64 bytes
        self.assertFalse(s.hopeless([POINT, other], 'openmpi', 2))
        self.assertFalse(s.hopeless([POINT, other], 'unmeasured', 2))


class States(unittest.TestCase):
    def test_unlike_pairs_are_dropped(self):
        runs = runs_of({'ringcomm': [1.0] * 7, 'mpich': [2.0] * 7})
        # Round 5: the cores were far apart while the peer ran; round 6: they moved in between.
        runs += [run_of(5, 'mpich', 8.0, line=250.0), run_of(6, 'mpich', 8.0, after=250.0)]
        v = figures.Summary(runs, 2).verdict(POINT)
        self.assertEqual((v.ratio.pairs, v.ratio.dropped, v.sure), (5, 2, True))
        self.assertAlmostEqual(v.ratio.high, 2.0)

    def test_far_beside_far_is_a_pair(self):
        runs = runs_of({'ringcomm': [1.0] * 6, 'mpich': [2.0] * 6}, line=250.0)
        runs += runs_of({'ringcomm': [1.0] * 9, 'mpich': [2.0] * 9})[6:9]
        v = figures.Summary(runs + [run_of(9, 'ringcomm', 1.0)], 2).verdict(POINT)
        self.assertEqual(v.ratio.dropped, 0)

    def test_other_programs(self):
        runs = runs_of({'ringcomm': [1.0] * 6, 'mpich': [2.0] * 6})
        runs += [run_of(2, 'ringcomm', 40.0, foreign=0.5)]
        v = figures.Summary(runs, 2).verdict(POINT)
        self.assertEqual((v.ratio.pairs, v.ratio.dropped), (5, 1))

    def test_too_few_left(self):
        v = summary_of({'ringcomm': [1.0] * 6, 'mpich': [2.0] * 6}, foreign=0.5).verdict(POINT)
        self.assertEqual((v.ratio.pairs, v.ratio.dropped, v.sure), (6, 6, False))
        self.assertEqual(writing.verdict_text(v), 'better?')


class Bands(unittest.TestCase):
    def test_distances_are_apart_and_the_best_peer_is_the_band_s(self):
        runs = []
        for size, a, b in ((8, 1.0, 3.0), (1024, 4.0, 3.0), (4096, 8.0, 2.0)):
            point = POINT._replace(bytes=size)
            for first, line, factor in ((0, 50.0, 1.0), (3, 150.0, 2.0), (6, 250.0, 4.0)):
                for i in range(first, first + 3):
                    runs += [run_of(i, 'ringcomm', 1.0, point, line=line),
                             run_of(i, 'openmpi', a * factor, point, line=line),
                             run_of(i, 'mpich', b * factor, point, line=line)]
        near, middle, far = figures.Summary(runs, 2).bands()
        self.assertEqual([b.line for b in (near, middle, far)], ['near', 'middle', 'far'])
        whole, kib, kib64, mib, above = near.cells
        self.assertEqual((whole[0], whole[2]), ('mpich', 3))
        self.assertAlmostEqual(whole[1], 18 ** (1 / 3))
        self.assertEqual((kib[0], kib64[0]), ('openmpi', 'mpich'))
        self.assertAlmostEqual(kib[1], 2.0)
        self.assertAlmostEqual(kib64[1], 2.0)
        self.assertIsNone(mib or above)
        self.assertAlmostEqual(far.cells[0][1], 4 * whole[1])

    def test_a_machine_that_changed_has_no_distance(self):
        runs = [run_of(0, lib, 1.0, line=50.0, after=150.0) for lib in ('ringcomm', 'mpich')]
        runs += [run_of(1, lib, 1.0, line=50.0, foreign=0.5) for lib in ('ringcomm', 'mpich')]
        self.assertEqual(figures.Summary(runs, 2).bands(), [])


class Means(unittest.TestCase):
    def test_geometric_mean_and_goal(self):
        runs = []
        for size, factor in ((8, 1.0), (64, 2.0), (512, 4.0)):
            point = POINT._replace(bytes=size)
            runs += runs_of({'ringcomm': [1.0] * 6, 'mpich': [factor] * 6}, point)
        mean, = figures.Summary(runs, 2).means()
        self.assertAlmostEqual(mean.ratio, 2.0)
        self.assertAlmostEqual(mean.low, 2.0)
        self.assertAlmostEqual(mean.high, 2.0)
        self.assertEqual((mean.points, mean.goal), (3, 1.5))
        self.assertEqual(figures.goal_of('same', 4, 'shm', 'all_reduce'), 2.0)
        self.assertEqual(figures.goal_of('same', 4, 'tcp', 'all_reduce'), 1.5)
        self.assertEqual(figures.goal_of('same', 8, 'tcp', 'sendrecv'), 1.2)
        self.assertIsNone(figures.goal_of('same', 2, 'shm', 'barrier'))
        self.assertEqual(figures.goal_of('asleep', 4, 'shm', 'barrier'), 1.0)

    def test_interval_widens_with_the_spread(self):
        def width(spread):
            rng = random.Random(3)
            runs = []
            for size in (8, 64, 512, 4096):
                times = [2 * math.exp(rng.gauss(0, spread)) for _ in range(9)]
                runs += runs_of({'ringcomm': [1.0] * 9, 'mpich': times},
                                POINT._replace(bytes=size))
            mean, = figures.Summary(runs, 2).means()
            self.assertTrue(mean.low <= mean.ratio <= mean.high)
            return mean.high / mean.low
        self.assertLess(width(0.01), width(0.3))

    def test_limits(self):
        big = POINT._replace(bytes=256 << 20)
        burst = POINT._replace(mode='burst')
        runs = [run_of(0, 'ringcomm', 30000.0, big), run_of(0, 'ringcomm', 0.3, burst)]
        rows = [{'what': 'traffic', 'how': 'c = a + b, non-temporal stores', 'cores': '2',
                 'bytes': str(64 << 20), 'median': '45.0'},
                {'what': 'cache line', 'how': 'one line, both write it', 'cores': '2',
                 'bytes': '', 'median': '50.0'}]
        found = figures.limits(figures.Summary(runs, 2), writing.floor_median(rows))
        # 4 n bytes at 45 GB/s of reads and writes; 4 lines and 60 ns.
        self.assertAlmostEqual(found[0].limit, 4 * (256 << 20) / 45e3)
        self.assertAlmostEqual(found[0].factor, 30000 / found[0].limit)
        self.assertAlmostEqual(found[1].limit, 0.26)
        self.assertEqual(len(found), 2)


class Changes(unittest.TestCase):
    """Two builds of libringcomm."""

    def summary(self, *ratios):
        """Six sizes or fewer; for each the ratios before / now by round."""
        runs = []
        for i, values in enumerate(ratios):
            point = POINT._replace(bytes=8 << i)
            runs += runs_of({'ringcomm': [2.0] * len(values), 'before': [2.0 * v for v in values]},
                            point)
        return figures.Summary(runs, 2)

    def test_ratio_is_before_by_now(self):
        change, = self.summary([1.5, 1.4, 1.6, 1.5, 1.5, 1.5]).changes()
        self.assertAlmostEqual(change.ratio.median, 1.5)
        self.assertAlmostEqual(change.ratio.low, 1.4)
        self.assertAlmostEqual(change.ratio.high, 1.6)
        self.assertAlmostEqual(change.before[0], 3.0)
        self.assertAlmostEqual(change.now[0], 2.0)

    def test_geometric_means(self):
        passes, fails = self.summary([0.5] * 6, [1.7] * 6), self.summary([0.5] * 6, [1.5] * 6)
        for summary, mean, line in ((passes, math.sqrt(0.85), r'^\*\*PASS\*\*: all 1 '),
                                    (fails, math.sqrt(0.75),
                                     r'^\*\*FAIL\*\*: 1 of 1 .*: all_reduce shm 2 ranks same 0.87$')):
            found, = summary.change_means()
            self.assertAlmostEqual(found.ratio, mean)
            self.assertRegex(writing.builds_verdict([found]), line)
        self.assertIn('Nothing', writing.builds_verdict([]))
        self.assertIn('**FAIL**', writing.builds_report([], fails))
        self.assertIn('**PASS**', writing.builds_report([], passes))

    def test_points_whose_whole_interval_is_low(self):
        summary = self.summary([0.7, 0.6, 0.79, 0.75, 0.7, 0.7], [0.7, 0.6, 0.81, 0.75, 0.7, 0.7],
                               [0.7], [1.0] * 6)
        self.assertEqual([change.point.bytes for change in summary.slower()], [8])
        text = writing.builds_report([], summary)
        self.assertIn('below 0.80: 1\n', text)
        self.assertIn('below 0.80: none\n', writing.builds_report([], self.summary([1.0] * 6)))

    def test_points_of_one_build_only(self):
        self.assertEqual(summary_of({'ringcomm': [1.0] * 6}).changes(), [])

    def test_loads(self):
        points = [figures.Point('same', ranks, transport, collective, size)
                  for ranks in (2, 8) for transport in ('shm', 'tcp')
                  for collective in ('all_reduce', 'sendrecv')
                  for size in (8, 4096, 1 << 18, 1 << 21, 1 << 24, 1 << 26)]
        loads = measuring.pair_loads_of(points)
        self.assertEqual([p for load in loads for p in measuring.load_points(load)], points)
        self.assertLess(len(loads), len(points) / 2)
        for load in loads:
            iters = [measuring.pair_iterations(p) for p in measuring.load_points(load)]
            self.assertLessEqual(max(iters), measuring.PAIR_SPREAD * min(iters))
            words = measuring.pair_words(load, 'together')
            chosen = int(words[words.index('-n') + 1])
            self.assertTrue(min(iters) <= chosen <= max(iters))
            if chosen < measuring.PAIR_TOGETHER:
                self.assertNotIn('--together', words)
        for mode in ('asleep', 'burst'):
            load = measuring.Load(mode, 2, 'shm', 'all_reduce', (8,))
            self.assertNotIn('-n', measuring.pair_words(load, 'barrier'))


class Tools(unittest.TestCase):
    """The parts around the measurements that need no measurement."""

    def options(self, *argv):
        run = load_script('run')
        before, sys.argv = sys.argv, ['run', *argv]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return run.parse_options()
        finally:
            sys.argv = before

    def test_points_and_loads(self):
        options = self.options('--ranks', '2,3', '--transports', 'shm', '--sizes', '4,1K,7,5M,64M',
                               '--modes', 'same,fresh,burst')
        points = options.points
        self.assertEqual(len(points), len(set(points)))
        # Per rank count: three collectives at five sizes, a barrier; fresh without it; one burst.
        self.assertEqual(len(points), 2 * 16 + 2 * 15 + 1)
        self.assertEqual({p.bytes for p in points if p.collective == 'broadcast'},
                         {4, 8, 1024, 5 << 20, 64 << 20})
        loads = measuring.loads_of(points)
        self.assertEqual([p for load in loads for p in measuring.load_points(load)], points)
        for load in loads:
            self.assertLessEqual(len(load.sizes), measuring.LOAD_SIZES)
            self.assertTrue(len(load.sizes) == 1 or max(load.sizes) <= measuring.LOAD_LARGE)
        fresh = next(load for load in loads if load.mode == 'fresh')
        self.assertIn('--fresh', measuring.load_words(fresh, 'barrier'))

    def test_two_builds(self):
        options = self.options('--before', 'abc')
        self.assertEqual((options.rounds, options.peers), (12, []))
        self.assertEqual(self.options().rounds, 6)
        self.assertNotEqual(options.out, self.options().out)
        with self.assertRaises(SystemExit):
            self.options('--before', 'abc', '--peers', 'mpich')

    def test_cores(self):
        cpus = [int(cpu) for core in builds.cores() for cpu in core.split(',')]
        self.assertEqual(sorted(cpus), sorted(os.sched_getaffinity(0)))

    def test_ranks_that_sleep(self):
        points = self.options('--ranks', '2', '--transports', 'shm', '--modes', 'asleep').points
        self.assertEqual([(p.collective, p.bytes) for p in points],
                         [(c, size) for c in figures.USUAL
                          for size in ([0] if c == 'barrier' else [8, 64, 512, 4096])])
        load = measuring.loads_of(points)[0]
        words = measuring.load_words(load, 'together')
        self.assertIn('--asleep', words)
        self.assertNotIn('--together', words)
        for kind in (libraries.Ringcomm, peers.OpenMpi, peers.Mpich, peers.Gloo):
            bound = {mode: kind('/nonexistent', 'core').binding(1, mode)
                     for mode in ('same', 'asleep')}
            self.assertEqual(bound, {'same': 'core', 'asleep': 'none'})

    def test_where_ranks_begin_together(self):
        cores = os.cpu_count() or 1
        for ranks, begin, together in ((cores, 'together', True), (cores + 1, 'together', False),
                                       (cores, 'barrier', False)):
            load = measuring.Load('same', ranks, 'shm', 'broadcast', (8,))
            self.assertEqual('--together' in measuring.load_words(load, begin), together)

    def test_part_of_the_points(self):
        every = self.options('--sizes', '4,8').points
        self.assertEqual(self.options('--sizes', '4,8', '--points', '5-9').points, every[5:10])
        for wrong in (['--ranks', '1'], ['--sizes', '0'], ['--sizes', 'x'], ['--peers', 'nccl'],
                      ['--points', '900-901'], ['--rounds', '0']):
            with self.assertRaises(SystemExit, msg=wrong):
                self.options(*wrong)

    def comparison(self, folder, rounds, libs):
        options = argparse.Namespace(points=[POINT, POINT._replace(bytes=64)], rounds=rounds,
                                     prune=2.0, patience=0, load_seconds=1, verbose=False,
                                     begin='barrier', before=None, beside=0)
        floor = types.SimpleNamespace(line=lambda: 30.0)
        c = measuring.Comparison(options, libs, floor, measuring.Book(folder))
        return c

    def test_resume_prune_and_failures(self):
        measured = []

        class Fake:
            transports = ('shm',)

            def __init__(self, name, time):
                self.name = self.title = name
                self.time = time

            def measures(self, collective):
                return collective == 'all_reduce'

        def measure_one(library, load):
            measured.append(library.name)
            if library.name == 'broken':
                raise libraries.Failure('it broke')
            if library.name == 'slow':
                raise libraries.Late('it took too long')
            return {(load.collective, s): run_of(0, '', library.time).result for s in load.sizes}

        self.addCleanup(setattr, measuring, 'Foreign', measuring.Foreign)
        measuring.Foreign = lambda: types.SimpleNamespace(share=lambda spare: 0.0)
        libs = [Fake('ringcomm', 1.0), Fake('openmpi', 1.5), Fake('mpich', 4.0), Fake('broken', 1),
                Fake('slow', 1)]
        with tempfile.TemporaryDirectory() as folder, \
                contextlib.redirect_stderr(io.StringIO()):
            first = self.comparison(folder, 2, libs)
            first.measure_one = measure_one
            self.assertEqual(first.measure(0), 2)  # no time: nothing starts
            self.assertEqual(measured, [])
            self.assertEqual(first.measure(math.inf), 0)
            self.assertEqual(measured, ['ringcomm', 'openmpi', 'mpich', 'broken', 'slow',
                                     'slow', 'broken', 'openmpi', 'ringcomm'])
            self.assertEqual(len(first.book.broken()), 1)
            self.assertEqual(len(set(first.book.failures.values())), 2)
            with open(os.path.join(folder, 'runs.csv'), 'a', encoding='utf-8') as file:
                file.write('2,ringcomm,same,2,shm,all_')  # a run that was killed while writing
            measured.clear()
            second = self.comparison(folder, 4, libs)
            second.measure_one = measure_one
            self.assertEqual(second.book.runs, first.book.runs)
            self.assertEqual(len(second.missing()), 2)
            self.assertEqual(second.measure(math.inf), 0)
            # mpich was far behind; the broken library is given up after two failures.
            self.assertEqual(measured, ['ringcomm', 'openmpi', 'openmpi', 'ringcomm'])
            v = second.summary().verdict(POINT)
            self.assertEqual((v.peer, v.ratio.pairs, v.word), ('openmpi', 4, 'better'))
            self.assertEqual(measuring.Book(folder).runs, second.book.runs)

    def test_share_of_other_programs(self):
        for name in ('busy_seconds', 'own_seconds'):
            self.addCleanup(setattr, measuring, name, getattr(measuring, name))
        measuring.busy_seconds, measuring.own_seconds = lambda: 5.0, lambda: 1.0
        foreign = measuring.Foreign()
        foreign.began -= 1e3
        measuring.busy_seconds, measuring.own_seconds = lambda: 45.0, lambda: 11.0
        cores = os.cpu_count() or 1
        self.assertAlmostEqual(foreign.share(), 0.03 / cores, places=4)
        self.assertAlmostEqual(foreign.share(10.0), 0.02 / cores, places=4)
        self.assertEqual(foreign.share(31.0), 0.0)

    def test_wrong_elements_are_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            c = self.comparison(folder, 1, [])
            bad = run_of(0, '', 1.0).result._replace(errors=3)
            before = measuring.bench
            measuring.bench = lambda *args: ({('all_reduce', 8): bad}, True)
            try:
                with self.assertRaisesRegex(libraries.Failure, '3 of 8 bytes'):
                    c.measure_one(types.SimpleNamespace(title='x'), c.loads[0])
            finally:
                measuring.bench = before

    def test_words_name_no_folder(self):
        class Extends(libraries.Library):
            def find_version(self):
                return ''

            def argv(self, transport, ranks, mode):
                return ['/usr/bin/run', f'{self.build}/program']

            def environment(self, transport, folder):
                return {'PATH': f'{self.build}/bin:{os.environ["PATH"]}', 'FABRIC': 'shm'}
        with unittest.mock.patch.dict(os.environ, PATH='/home/me/bin:/bin'):
            self.assertEqual(Extends('/home/me/build', 'core').words('shm', 2, 'same'),
                             'PATH=BUILD/bin:$PATH FABRIC=shm run program')

    def test_an_interruption_is_not_lost_if_the_program_has_just_ended(self):
        class Interrupted(subprocess.Popen):
            def communicate(self, *args, **more):
                self.wait()
                raise KeyboardInterrupt
        with unittest.mock.patch('subprocess.Popen', Interrupted):
            self.assertRaises(KeyboardInterrupt, libraries.first_line, ['true'])

    def test_report_and_charts(self):
        runs = []
        for size, factor in ((8, 0.5), (64, 1.5), (1 << 20, 3.0)):
            point = POINT._replace(bytes=size)
            runs += runs_of({'ringcomm': [1.0] * 6, 'mpich': [factor] * 6, 'gloo': [4.0] * 6},
                            point)
        summary = figures.Summary(runs, 2)
        titles = {'mpich': 'MPICH <4>', 'gloo': 'Gloo'}
        with tempfile.TemporaryDirectory() as folder:
            charts = writing.draw(folder, summary, titles)
            self.assertEqual(sorted(charts), sorted(os.listdir(folder)))
            self.assertEqual(len(charts), 2)
            for name in charts:
                root = xml.etree.ElementTree.parse(os.path.join(folder, name)).getroot()
                self.assertTrue(root.tag.endswith('svg'))
            text = writing.report(['- note'], summary, titles, [], charts)
            self.assertIn('3 points: 2 better, 0 even, 0 low, 1 worse', text)
            self.assertIn('| all_reduce | 8 B |', text)
            self.assertIn('**worse**', text)
            writing.write_summary(os.path.join(folder, 's.csv'), summary)
            with open(os.path.join(folder, 's.csv'), encoding='utf-8') as file:
                self.assertEqual(len(file.readlines()), 1 + 6)

    def test_results_keep_the_newest_of_each_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'RESULTS.md')
            for machine, ours in (('one', 1.0), ('other', 2.0), ('one', 4.0)):
                results.write(path, machine, [f'- a note of {ours}'],
                              summary_of({figures.OURS: [ours] * 6, 'mpich': [8.0] * 6}))
            with open(path, encoding='utf-8') as file:
                text = file.read()
        self.assertEqual(re.findall(r'^## (.*)$', text, re.MULTILINE), ['one', 'other'])
        self.assertEqual(re.findall(r'a note of (.*)', text), ['4.0', '2.0'])
        self.assertIn('| all_reduce, shm, 2 ranks | 4, 2.00 | 2.00 (2.00 to 2.00) |', text)
        self.assertIn('| all_reduce, shm, 2 ranks | 2, 4.00 | 4.00 (4.00 to 4.00) |', text)

    def test_chart_without_points(self):
        self.assertFalse(svg.chart('/nonexistent/x.svg', 't', ('x', 'y'),
                                   [svg.Line('a', [(0, 1.0)])]))


@unittest.skipUnless(BUILD, 'needs a build folder')
class Runs(unittest.TestCase):
    """The programs, with libringcomm alone."""

    def tool(self, status, *argv):
        env = {k: v for k, v in os.environ.items() if not k.startswith('RINGCOMM_')}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100,
                              check=False)
        self.assertEqual(done.returncode, status, f'{argv}\n{done.stdout}\n{done.stderr}')
        return done

    def compare(self, status, folder, *more):
        # Counts from the barrier on: on a busy machine ranks may never start together.
        return self.tool(status, sys.executable, os.path.join(FOLDER, 'run'), '--build', BUILD,
                         '--no-build', '--no-floor', '--out', folder, '--peers', 'none',
                         '--patience', '0', '--transports', 'shm', '--collectives',
                         'all_reduce,sendrecv', '--sizes', '8,1001', '--begin', 'barrier', *more)

    def test_ranks_that_sleep(self):
        with tempfile.TemporaryDirectory() as folder:
            self.compare(0, folder, '--ranks', '3', '--rounds', '1', '--modes', 'asleep')
            with open(os.path.join(folder, 'runs.csv'), encoding='utf-8') as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([(r['mode'], r['collective'], r['bytes'], r['errors']) for r in rows],
                             [('asleep', c, b, '0') for c in ('all_reduce', 'sendrecv')
                              for b in ('8', '1004')])
            for row in rows:
                self.assertEqual(row['span_us'], row['median_us'])

    def test_comparison_ends_in_time_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            def rows():
                with open(os.path.join(folder, 'runs.csv'), encoding='utf-8') as file:
                    return list(csv.DictReader(file))
            self.compare(3, folder, '--ranks', '2', '--rounds', '2', '--time-limit', '0.001')
            self.compare(0, folder, '--ranks', '2', '--rounds', '1', '--modes', 'same,fresh,burst')
            first = rows()
            self.assertEqual({(r['mode'], r['bytes'], r['errors']) for r in first},
                             {('same', '8', '0'), ('same', '1004', '0'), ('fresh', '8', '0'),
                              ('fresh', '1004', '0'), ('burst', '8', '0')})
            done = self.compare(0, folder, '--ranks', '2', '--rounds', '1')
            self.assertIn('0 visits', done.stderr)
            self.assertEqual(rows(), first)
            self.compare(0, folder, '--ranks', '3', '--rounds', '1', '--points', '0-0')
            self.assertEqual([(r['ranks'], r['bytes']) for r in rows()[len(first):]], [('3', '8')])
            done = self.compare(1, folder, '--ranks', '2', '--rounds', '1', '--begin', 'together')
            self.assertIn('another --before, --bind or --begin', done.stderr)
            with open(os.path.join(folder, 'state.json'), 'w', encoding='utf-8') as file:
                file.write('{}')
            done = self.compare(1, folder, '--ranks', '2', '--rounds', '1')
            self.assertIn('another libringcomm', done.stderr)

    def test_nothing_is_left_after_a_termination(self):
        def left(mark):
            for path in glob.glob('/proc/[0-9]*/environ'):
                with contextlib.suppress(OSError), open(path, 'rb') as file:
                    if mark.encode() in file.read():
                        yield path
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, COMPARE_TEST_MARK=folder)
            argv = [sys.executable, os.path.join(FOLDER, 'run'), '--build', BUILD, '--no-build',
                    '--no-floor', '--out', os.path.join(folder, 'out'), '--peers', 'none',
                    '--patience', '0', '--transports', 'shm', '--ranks', '2', '--sizes', '1M',
                    '--rounds', '99', '--begin', 'barrier']
            with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as run:
                until = time.monotonic() + 60
                while len(list(left(folder))) < 3 and time.monotonic() < until:
                    time.sleep(0.02)  # it has started ranks, or not yet
                run.terminate()
                self.assertEqual(run.wait(30), 1)
            while list(left(folder)) and time.monotonic() < until:
                time.sleep(0.02)
            self.assertEqual(list(left(folder)), [])

    def test_two_builds(self):
        with tempfile.TemporaryDirectory() as folder:
            more = ('--before', BUILD, '--ranks', '3')

            def compare(status, *args):  # not self.compare, which sets the peers
                return self.tool(status, sys.executable, os.path.join(FOLDER, 'run'), '--build',
                                 BUILD, '--no-build', '--out', folder, '--patience', '0',
                                 '--transports', 'shm', '--collectives', 'all_reduce,barrier',
                                 '--sizes', '8,1001', '--begin', 'barrier', *args)
            compare(0, *more, '--rounds', '1')
            done = compare(0, *more, '--rounds', '2')
            self.assertRegex(done.stdout, r'\*\*(PASS|FAIL)\*\*: ')
            with open(os.path.join(folder, 'runs.csv'), encoding='utf-8') as file:
                rows = list(csv.DictReader(file))
            names = [list(dict.fromkeys(r['library'] for r in rows if r['round'] == n))
                     for n in '01']
            self.assertEqual(names, [['ringcomm', 'before'], ['before', 'ringcomm']])
            self.assertEqual(len(rows), 2 * 2 * 3)  # a barrier has no size
            self.assertEqual({r['errors'] for r in rows}, {'0'})
            with open(os.path.join(folder, 'changes.csv'), encoding='utf-8') as file:
                changes = list(csv.DictReader(file))
            self.assertEqual([r['pairs'] for r in changes], ['2'] * 3)
            self.assertEqual(self.compare(1, folder, '--ranks', '3').stdout, '')
            done = compare(1, '--before', folder)
            self.assertIn('tools/ringcomm-bench is missing', done.stderr)
            done = compare(1, '--before', 'no such revision')
            self.assertIn("--before 'no such revision': neither", done.stderr)

    def test_both_builds_are_bound(self):
        cores = [sorted(map(int, core.split(','))) for core in builds.cores()]
        ranks = 2 * len(cores) + 1
        everywhere = [sorted(os.sched_getaffinity(0))] * ranks
        alternate = [cores[rank % len(cores)] for rank in range(ranks)]
        for bind, mode, expected in (('core', 'same', alternate), ('core', 'asleep', everywhere),
                                     ('none', 'same', everywhere)):
            side = builds.Side('before', 'before', BUILD, bind)
            argv = side.argv('shm', ranks, mode)
            argv = argv[:argv.index(side.program)] + [
                sys.executable, '-c',
                'import os; print(os.environ["RANK"], *sorted(os.sched_getaffinity(0)))']
            lines = [line.partition('] ')[2].split() for line in
                     self.tool(0, *argv).stdout.splitlines()]
            self.assertEqual({int(rank): [int(cpu) for cpu in cpus] for rank, *cpus in lines},
                             dict(enumerate(expected)))

    @unittest.skipUnless(shutil.which('meson') and shutil.which('git'), 'needs meson and git')
    def test_revision_is_built_once(self):
        def write(root, text):
            files = {'meson.build': "project('x', 'c')\nsubdir('tools')\n",
                     'meson_options.txt': "option('tests', type: 'boolean', value: true)\n",
                     'tools/meson.build': "executable('ringcomm-bench', 'x.c')\n"
                                          "executable('ringcomm-run', 'x.c')\n",
                     'tools/x.c': f'#include <stdio.h>\nint main(void) {{ puts("{text}"); }}\n'}
            for name, content in files.items():
                with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
                    file.write(content)
        with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as folder:
            def git(*words):
                self.tool(0, 'git', '-C', root, '-c', 'user.name=x', '-c', 'user.email=x', *words)
            os.mkdir(os.path.join(root, 'tools'))
            write(root, 'then')
            git('init', '-q')
            git('add', '.')
            git('commit', '-qm', 'x')
            write(root, 'later')
            commit = builds.revision(root, 'HEAD')
            for _ in range(2):
                out = builds.build_revision(root, folder, commit)
                program = os.path.join(out, 'tools/ringcomm-bench')
                self.assertEqual(self.tool(0, program).stdout, 'then\n')
                self.assertEqual(builds.buildtype(out), 'buildtype release')
                shutil.rmtree(root)  # the second run must not need it
                os.mkdir(root)

    def test_startup(self):
        rank = [os.path.join(BUILD, 'tools/compare/startup-rank'), '--wait', '0.5']
        for n in (2, 5):
            out = self.tool(0, os.path.join(BUILD, 'tools/ringcomm-run'), '-n', str(n), '--bind',
                            'none', '--', *rank).stdout
            row, = csv.DictReader(line.partition('] ')[2] for line in out.splitlines())
            values = {k: float(v) for k, v in row.items()}
            self.assertEqual(values['ranks'], n)
            self.assertTrue(0 < values['init_us'] <= values['init_span_us'] < 60e6)
            self.assertTrue(100 < values['pss_joined_kb'] <= values['pss_joined_max_kb'])
            self.assertTrue(values['pss_used_kb'] <= values['pss_used_max_kb'])
            self.assertTrue(values['pss_all_to_all_kb'] <= values['pss_all_to_all_max_kb'])
            # A process that spins would use a core, or its share on a busy machine. The low use of
            # one that sleeps is judged by tools/compare/startup.
            self.assertTrue(0 <= values['idle_percent'] < 10, values)
            self.assertTrue(0 <= values['waiting_percent'] < 10, values)


class Peers(unittest.TestCase):
    """The programs over other libraries define what the shared code of ringcomm-bench calls."""

    @staticmethod
    def names(pattern, *files):
        found = set()
        for name in files:
            with open(name, encoding='utf-8') as file:
                found.update(re.findall(pattern, file.read(), re.M))
        return found

    def test_functions(self):
        tools = os.path.dirname(FOLDER)
        root = os.path.dirname(tools)
        shared = [f for f in glob.glob(f'{tools}/bench/bench_*.c') if 'bench_kernel' not in f]
        library = glob.glob(f'{root}/base/**/*.c', recursive=True) + [f'{root}/{path}.c' for path in (
            'algorithms/plan/collectives', 'api/calls/info_collectives', 'api/work/struct_versions',
            'kernels/cpu/op_create', 'kernels/cpu/op_defined')]
        defined = r'^(?:extern "C" )?(?:const )?\w+ \*?(rcmi?_\w+)\('
        called = self.names(r'\b(rcm_\w+)\(', *shared)
        called -= self.names(defined, *library, os.path.join(FOLDER, 'peer_bench.c'))
        self.assertIn('rcm_all_reduce', called)
        for program in ('mpi_bench.c', 'gloo_bench.cc'):
            missing = called - self.names(defined, os.path.join(FOLDER, program))
            self.assertEqual(missing, set(), program)

    @unittest.skipUnless(BUILD and not peers.Mpich.missing(BUILD), 'needs MPICH')
    def test_it_links(self):
        peers.Mpich.link(BUILD)
        self.assertTrue(os.access(os.path.join(BUILD, peers.Mpich.target), os.X_OK))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
