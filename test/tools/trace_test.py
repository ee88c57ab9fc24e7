#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""RINGCOMM_TRACE: each rank's file is valid for Perfetto (an array of events with the fields of the
format), shows which rank was late, and is complete when another rank was killed.

trace_test.py RINGCOMM_RUN TRACE_RANKS
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

RUN, LATE = sys.argv[1:3]
RANKS = 4
BYTES = 65536  # of a vector


def run(folder, name, *args, ranks=RANKS, **env):
    pattern = os.path.join(folder, name)
    env = dict(os.environ, RINGCOMM_TRACE=pattern, RINGCOMM_LOG='error', **env)
    return subprocess.run([RUN, '-n', str(ranks), '--bind', 'none', '--keep-going', '--', LATE, *args],
                          env=env, capture_output=True, text=True, timeout=60)


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def events(self, name, rank):
        """Events of a rank's file, whose form is checked."""
        with open(os.path.join(self.folder.name, name)) as file:
            events = json.load(file)
        origin = [e['args']['origin_s'] for e in events if e['name'] == 'process_sort_index']
        self.assertEqual(len(origin), 1)
        for e in events:
            self.assertEqual(e['pid'], rank)
            self.assertIn(e['ph'], ('M', 'X'))
            if e['ph'] == 'X':
                self.assertIsInstance(e['tid'], int)
                self.assertLess(abs(e['ts'] / 1e6 + origin[0] - time.time()), 100)
                self.assertGreaterEqual(e['dur'], 0)
                self.assertIn(e['cat'], ('operation', 'step', 'wait'))
        named = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}
        self.assertTrue(all(name.startswith('late ones') for name in named.values()), named)
        self.assertEqual(len(named), len(set(named.values())))
        self.assertEqual(set(named), {e['tid'] for e in events if e['ph'] == 'X'})
        self.labels = [e['args']['labels'] for e in events if e['name'] == 'process_labels']
        events = [e for e in events if e['ph'] == 'X']
        self.check_nested(events)
        return events

    def check_nested(self, events):
        """Events of one thread may be nested, but must not overlap."""
        open_until = {}
        for e in sorted(events, key=lambda e: (e['ts'], -e['dur'])):
            ends = open_until.setdefault(e['tid'], [])
            while ends and ends[-1] <= e['ts']:
                ends.pop()
            end = e['ts'] + e['dur']
            self.assertTrue(not ends or end <= ends[-1] + 0.001, e)
            ends.append(end)

    def operation(self, events, number):
        found = [e for e in events if e['cat'] == 'operation' and e['args']['number'] == number]
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0]['name'], 'all_reduce')
        return found[0]

    def test_late(self):
        done = run(self.folder.name, 'late-%r.json')
        self.assertEqual(done.returncode, 0, done.stderr)
        waited = {int(r): float(s) for r, s in
                  re.findall(r'rank (\d) waited ([0-9.]+) s', done.stdout)}
        second = {}
        for rank in range(RANKS):
            events = self.events(f'late-{rank}.json', rank)
            second[rank] = self.operation(events, 2)
            waits = [e for e in events if e['cat'] == 'wait' and e['args']['number'] == 2 and
                     e['dur'] > 200000]
            self.assertTrue(all(e['name'] == f"wait for rank {e['args']['peer']}" and
                                e['args']['finished'] for e in waits))
            if rank == 1:
                self.assertEqual(waits, [])
                self.assertLess(second[1]['dur'], 200000)
            else:
                self.assertIn(1, [e['args']['peer'] for e in waits])
                self.assertGreater(second[rank]['dur'], 200000)
                self.assertGreater(waited[rank], 0.2)
        begun = {rank: e['ts'] for rank, e in second.items()}
        self.assertTrue(all(begun[1] - begun[r] > 200000 for r in (0, 2, 3)), begun)

    def test_two_at_a_time(self):
        """A step has the bytes of its message also where that consists of several chunks."""
        done = run(self.folder.name, 'two-%r', 'two', RINGCOMM_ALGORITHM='all_reduce=halving_doubling')
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(RANKS):
            events = self.events(f'two-{rank}', rank)
            sent = [e['args']['bytes'] for e in events
                    if e['cat'] == 'step' and e['name'] == 'send' and e['args']['number'] == 1]
            self.assertEqual(sum(sent), 2 * (RANKS - 1) * BYTES // RANKS)
            self.assertTrue(rank == 1 or self.operation(events, 5)['tid'] != self.operation(events, 6)['tid'])

    def test_last(self):
        """With more events than fit into memory: the last ones, and the number of the missing."""
        done = run(self.folder.name, 'many-%r', 'many', ranks=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = self.events('many-0', 0)
        self.assertEqual(len(events), 65535)
        self.assertEqual(self.operation(events, 40004)['name'], 'all_reduce')
        self.assertEqual(len(self.labels), 1)
        of_call = sum(e['args']['number'] == 40000 for e in events)
        missing = int(re.fullmatch(r'(\d+) events of the world are not kept', self.labels[0])[1])
        self.assertLess(abs(missing + len(events) - 40000 * of_call), 100)

    def test_killed(self):
        run(self.folder.name, 'killed', 'killed')
        for rank in (0, 1, 3):
            events = self.events(f'killed.{rank}', rank)
            self.operation(events, 3)
            self.assertIn(2, [e['args'].get('peer') for e in events
                              if e['cat'] == 'wait' and e['args']['number'] == 3
                              and not e['args']['finished']])

    def test_refused(self):
        done = run('/nonexistent', 'x')
        self.assertNotEqual(done.returncode, 0)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
