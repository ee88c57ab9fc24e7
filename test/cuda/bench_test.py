#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-bench over the emulator: bench_test.py RINGCOMM_BENCH [UNITTEST ARGS]"""
import csv
import os
import subprocess
import sys
import unittest

BENCH = sys.argv[1]


class Bench(unittest.TestCase):
    def test_transports_are_named_once(self):
        # Ranks 0 and 2 share a device. Rank 1 has the other one, without peer access.
        env = {**os.environ, 'FAKECUDA_DEVICES': '2', 'FAKECUDA_NOPEER': '1'}
        done = subprocess.run([BENCH, 'all_to_all', '--ranks', '3', '--memory', 'cuda', '-b', '4K',
                               '-e', '4K', '-n', '2', '-w', '1', '--timeout', '100', '--csv', '-'],
                              capture_output=True, text=True, timeout=120, check=False, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(done.stdout.splitlines()))
        self.assertEqual([row['transport'] for row in rows], ['shm+cuda_ipc'], done.stdout)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
