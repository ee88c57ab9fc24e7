# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-tune as a program: what it writes is what the library reads, and what it reports.

Usage: tune_test.py RINGCOMM_TUNE RINGCOMM_INFO RINGCOMM_RUN RINGCOMM_BENCH
"""
import csv
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

TUNE, INFO, RUN, BENCH = sys.argv[1:5]
SOME = ('--quick', '-n', '2', '--seconds', '2', '--transport', 'shm')


def run(program, *args, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith('RINGCOMM_')}
    return subprocess.run([program, *args], env={**clean, **env}, capture_output=True, text=True,
                          timeout=60, check=False)


class Tune(unittest.TestCase):
    def test_file(self):
        with tempfile.TemporaryDirectory() as folder:
            conf, plot = os.path.join(folder, 'node.conf'), os.path.join(folder, 'plot.svg')
            done = run(TUNE, *SOME, '-o', conf, '--plot', plot)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r'# before: .* (\d+) points.*\n# after: ')
            with open(conf, encoding='utf-8') as file:
                written = dict(re.findall(r'^(\S+) += (\S+) +# \S', file.read(), re.M))
            self.assertGreaterEqual(len(written), 4)
            shown = run(INFO, '--protocols', '--csv', '-', RINGCOMM_TUNING=conf).stdout
            rows = {r['name']: r for r in csv.DictReader(io.StringIO(shown))}
            for name, value in written.items():
                self.assertEqual((rows[name]['value'], rows[name]['origin']),
                                 (value, 'RINGCOMM_TUNING'))
            circles = xml.dom.minidom.parse(plot).getElementsByTagName('circle')
            self.assertGreater(len(circles), 3)
            done = run(TUNE, *SOME, '--report', RINGCOMM_TUNING=conf)
            self.assertEqual(done.returncode, 0, done.stderr)
            table = [line.split() for line in done.stdout.splitlines() if line[0] != '#']
            self.assertIn('all_reduce', {row[0] for row in table})
            for row in table:
                self.assertGreaterEqual(float(row[-1]), 1)
                if row[4] == row[5]:
                    self.assertEqual(float(row[-1]), 1)

    def near_found(self, conf, **env):
        """The log lines of a job's ranks on near ranks."""
        done = run(RUN, '-n', '2', '--', BENCH, 'broadcast', '--transport', 'shm', '--check', '-b',
                   '64K', '-e', '256K', '-n', '2', RINGCOMM_TUNING=conf, RINGCOMM_LOG='info', **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.findall(r'\d of \d other ranks of this host are near \(.*?\)', done.stderr)

    def test_near(self):
        """The faster one of near and far is measured, and a job uses it."""
        with tempfile.TemporaryDirectory() as folder:
            conf = os.path.join(folder, 'node.conf')
            slots = {'RINGCOMM_PROTOCOL': 'slot_non_temporal=16K-'}
            args = ('--quick', '-n', '2', '--seconds', '20', '--transport', 'shm', '-o', conf)
            done = run(TUNE, *args, **slots)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(conf, encoding='utf-8') as file:
                line = re.search(r'^near += ([01]) +# .* (\d+\.\d+) times as fast', file.read(), re.M)
            if not line: # the caches are known
                self.assertIn('# near: not measured: the system describes', done.stdout)
                return
            if line[2] != '1.05': # rounded
                self.assertEqual(line[1] == '1', float(line[2]) > 1.05)
            self.assertRegex(done.stdout, r'# near: 3 rounds, near=1 is \d+\.\d+ times as fast')
            reason = "(set by rank 0's tuning file)"
            self.assertEqual(self.near_found(conf),
                             [f'{line[1]} of 1 other ranks of this host are near {reason}'] * 2)
            done = run(TUNE, *args, RINGCOMM_PROTOCOL='slot_non_temporal=never')
            self.assertIn('# near: not measured: slots are written by temporal', done.stdout)

    def test_near_of_a_file(self):
        reason = "(set by rank 0's tuning file)"
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            for near in ('1', '0'):
                file.seek(0)
                file.write(f'near = {near}\n')
                file.flush()
                self.assertEqual(self.near_found(file.name),
                                 [f'{near} of 1 other ranks of this host are near {reason}'] * 2)
                self.assertEqual(self.near_found(file.name, RINGCOMM_NEAR='1'),
                                 ['1 of 1 other ranks of this host are near (set by RINGCOMM_NEAR)'] * 2)
                shown = run(INFO, '--cpus', '--csv', '-', RINGCOMM_TUNING=file.name).stdout
                rows = {r['name']: r for r in csv.DictReader(io.StringIO(shown))}
                self.assertEqual((rows['near']['value'], rows['near']['origin']),
                                 ('all' if near == '1' else 'none', 'RINGCOMM_TUNING'))
            file.seek(0)
            file.write('near = 2')
            file.flush()
            done = run(INFO, '--protocols', RINGCOMM_TUNING=file.name)
            self.assertIn("'near = 2' is not near=auto, near=0 or near=1", done.stdout)

    def test_mistakes(self):
        for args, error in ((('--ranks', '1'), 'not a number from 2'),
                           (('--transport', 'rdma'), 'not one of shm, tcp'),
                           (('--report', '-o', 'x'), 'writes no file')):
            done = run(TUNE, *args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(error, done.stderr)
        for file in (('-o', '/nonexistent/x'), ('--plot', '/nonexistent/x')):
            done = run(TUNE, *SOME, *file)
            self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('cannot write /nonexistent/x', done.stderr)
        self.assertIn('Examples:', run(TUNE, '--help').stdout)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
