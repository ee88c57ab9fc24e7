#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-info --check cuda over the emulator: check_test.py RINGCOMM_INFO [UNITTEST ARGS]"""
import json
import os
import subprocess
import sys
import unittest

INFO = sys.argv[1]
SHARED = r'^shm\+cuda_ipc, a hop [0-9.]+ us, [0-9.]+ GB/s, data right$'
PINNED = '^pinned slots, shm, a hop .*, data right$'


class Check(unittest.TestCase):
    def check_gpus(self, status, **settings):
        """Facts: (test, of, name) -> value; results: test -> value; the verdict."""
        env = {**os.environ, **{'FAKECUDA_' + name: value for name, value in settings.items()}}
        done = subprocess.run([INFO, '--check', 'cuda', '--json', '-'], capture_output=True,
                              text=True, timeout=120, check=False, env=env)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        facts = {(row['test'], row['of'], row['name']): row['value'] for row in report['rows']
                 if row['name'] not in ('result', 'mend')}
        results = {row['test']: row['value'] for row in report['rows'] if row['name'] == 'result'}
        return facts, results, report['verdict']

    def test_well(self):
        facts, results, verdict = self.check_gpus(0)
        self.assertEqual(verdict, 'OK')
        self.assertEqual(set(results.values()), {'ok'})
        self.assertTrue(facts['devices', 'device 0', 'UUID'].startswith('GPU-'))
        self.assertGreater(int(facts['kernels', 'device 0', 'pairs on the device']), 100)
        self.assertEqual(facts['kernels', 'device 0', 'pairs on the host'], '0')
        self.assertIn('GB/s', facts['copies', 'device 0', 'pinned to device'])
        self.assertIn('right', facts['ipc', None, 'memory of another'])
        self.assertRegex(facts['pairs', '0-0', 'plane'], SHARED)
        self.assertEqual(facts['pairs', 'all pairs', 'tried'], '1 of 1')

    def test_no_driver(self):
        _, results, verdict = self.check_gpus(1, DEVICES='0')
        self.assertIn('CUDA_VISIBLE_DEVICES', verdict)
        self.assertEqual((results['driver'], results['kernels']), ('mend', 'left out'))

    def test_prohibited(self):
        facts, results, verdict = self.check_gpus(1, COMPUTE_MODE='prohibited')
        self.assertEqual(facts['devices', 'device 0', 'compute mode'], 'prohibited')
        self.assertEqual((results['devices'], results['open']), ('ok', 'mend'))
        self.assertIn('its compute mode is exclusive', verdict)

    def test_instances(self):
        facts, results, verdict = self.check_gpus(1, MIG='1', FAIL='cuLaunchKernel:20')
        self.assertTrue(facts['devices', 'device 1', 'UUID'].startswith('MIG-'))
        self.assertEqual((results['copies'], results['kernels'], results['order']),
                         ('ok', 'mend', 'ok'))
        self.assertIn('a reduction of', verdict)
        self.assertRegex(facts['pairs', '1-1', 'plane'], SHARED)
        self.assertRegex(facts['pairs', '0-1', 'plane'], PINNED)
        self.assertRegex(facts['pairs', '0-1', 'why through the host'], 'declined it: .*MIG instances')

    def test_no_peer_access(self):
        """Missing peer access is not a mistake: nothing can be changed about it."""
        facts, results, verdict = self.check_gpus(0, DEVICES='2', NOPEER='1')
        self.assertEqual((verdict, results['pairs']), ('OK', 'ok'))
        self.assertRegex(facts['pairs', '0-0', 'plane'], SHARED)
        self.assertRegex(facts['pairs', '0-1', 'plane'], PINNED)
        self.assertIn('peer access', facts['pairs', '0-1', 'why through the host'])
        self.assertRegex(facts['pairs', '0-1', 'why through the host'],
                         r' CUDA_ERROR_PEER_ACCESS_UNSUPPORTED \(217\)$')
        self.assertEqual(facts['pairs', 'all pairs', 'tried'], '3 of 3')

    def test_equal_pids(self):
        """A device that two processes could share, and do not."""
        facts, results, verdict = self.check_gpus(1, PID='1')
        self.assertEqual(results['pairs'], 'mend')
        self.assertRegex(facts['pairs', '0-0', 'plane'], PINNED)
        self.assertRegex(verdict, 'devices 0 and 0 goes through pinned slots of the host: cuda_ipc: '
                         'rank . declined it: ')

    def test_one_process(self):
        facts, *_ = self.check_gpus(0, COMPUTE_MODE='exclusive')
        self.assertIn('none: compute mode exclusive', facts['pairs', '0-0', 'plane'])

    def test_killed(self):
        _, results, _ = self.check_gpus(1, FAIL='cuMemAlloc:1:700')
        self.assertEqual((results['copies'], results['kernels'], results['pairs']), ('mend',) * 3)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
