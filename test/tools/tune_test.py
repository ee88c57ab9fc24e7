# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-tune as a program: what it writes is what the library reads, and what it reports.

Usage: tune_test.py RINGCOMM_TUNE RINGCOMM_INFO
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

TUNE, INFO = sys.argv[1:3]
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
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
