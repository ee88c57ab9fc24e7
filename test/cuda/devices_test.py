#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--device of the tools, over two emulated devices: devices_test.py RINGCOMM_BENCH RINGCOMM_INFO [UNITTEST ARGS]"""
import json
import os
import subprocess
import sys
import unittest

BENCH, INFO = sys.argv[1:3]
ENV = {name: value for name, value in os.environ.items()
       if name != 'RINGCOMM_DEVICE' and not name.endswith('LOCAL_RANK')}


class Devices(unittest.TestCase):
    def run_tool(self, status, *command, **settings):
        env = {**ENV, 'FAKECUDA_DEVICES': '2', **settings}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
        self.assertEqual(done.returncode, status, f'{command}\n{done.stdout}\n{done.stderr}')
        return done

    def kernel(self, status, *args, **settings):
        return self.run_tool(status, BENCH, 'kernel', '--memory', 'cuda', '-b', '1K', '-e', '1K', *args, **settings)

    def kernel_uuids(self, *args, **settings):
        report = json.loads(self.kernel(0, '--json', '-', *args, **settings).stdout)
        return {row['device'] for row in report['rows']}

    def bench(self, status, *args, **settings):
        return self.run_tool(status, BENCH, 'all_reduce', '-b', '1K', '-e', '1K', '-n', '1', '-w', '1', '--check',
                             '--timeout', '60', *args, **settings)

    def bench_device(self, *args, **settings):
        """Rank 0's device, from the report."""
        done = self.bench(0, '--memory', 'cuda', *args, **settings)
        lines = [line for line in done.stdout.splitlines() if line.startswith('# device')]
        self.assertEqual(len(lines), 1, done.stdout)
        return lines[0].split('of rank 0: ')[1]

    def check_devices(self, status, *args, **settings):
        """The checked devices, the pairs, and the verdict."""
        done = self.run_tool(status, INFO, '--check', 'cuda', '--json', '-', *args, **settings)
        report = json.loads(done.stdout)
        devices = {row['of'] for row in report['rows'] if (row['of'] or '').startswith('device ')}
        pairs = {row['of'] for row in report['rows'] if row['name'] == 'plane'}
        return devices, pairs, report['verdict']

    def test_kernel(self):
        first, second = self.kernel_uuids(), self.kernel_uuids('--device', '1')
        self.assertEqual((len(first), len(second)), (1, 1))
        self.assertNotEqual(first, second)
        self.assertEqual(self.kernel_uuids('--device', *second), second)
        self.assertEqual(self.kernel_uuids('--device', 'auto', RINGCOMM_DEVICE='1'), first)
        self.assertEqual(self.kernel_uuids(RINGCOMM_DEVICE='1'), second)

    def test_kernel_of_a_rank(self):
        first, second = self.kernel_uuids(), self.kernel_uuids('--device', '1')
        launched = {'RANK': '1', 'WORLD_SIZE': '2', 'LOCAL_RANK': '1', 'LOCAL_WORLD_SIZE': '2',
                    'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '1'}
        self.assertEqual(self.kernel_uuids('--device', 'auto', **launched), second)
        self.assertEqual(self.kernel_uuids(**launched), second)
        self.assertEqual(self.kernel_uuids('--device', '0', **launched), first)

    def test_none(self):
        """RINGCOMM_DEVICE=none is not treated as a missing device."""
        self.assertIn('RINGCOMM_DEVICE is none', self.kernel(1, RINGCOMM_DEVICE='none').stderr)
        devices, pairs, verdict = self.check_devices(0, RINGCOMM_DEVICE='none')
        self.assertEqual((devices, pairs, verdict), ({'device 0', 'device 1'}, {'0-0', '0-1', '1-1'}, 'OK'))

    def test_ranks(self):
        both = ['--ranks', '2']
        self.assertRegex(self.bench_device(*both), r'^device 0 \(GPU-')
        label = self.bench_device(*both, '--device', '1')
        self.assertRegex(label, r'^device 1 \(GPU-')
        uuid = label.split('(')[1].rstrip(')')
        self.assertEqual(self.bench_device(*both, '--device', uuid, '--threads'), label)
        self.assertRegex(self.bench_device(*both, '--device', 'auto', RINGCOMM_DEVICE='1'), '^device 0 ')

    def test_check(self):
        devices, pairs, verdict = self.check_devices(0, '--device', '1')
        self.assertEqual((devices, pairs, verdict), ({'device 1'}, {'0-1', '1-1'}, 'OK'))

    def test_check_of_a_rank(self):
        """Pairs are left to the first rank of a host."""
        devices, pairs, verdict = self.check_devices(
            0, '--device', 'auto', MASTER_ADDR='127.0.0.1', MASTER_PORT='1', RANK='0', WORLD_SIZE='2',
            LOCAL_RANK='1', LOCAL_WORLD_SIZE='2')
        self.assertEqual((devices, pairs, verdict), ({'device 1'}, set(), 'OK'))

    def test_not_there(self):
        self.assertIn("device '2' is not one of the 2 here", self.kernel(1, '--device', '2').stderr)
        self.assertIn("device 'GPU-x' is not one of the 2 here",
                      self.bench(1, '--ranks', '2', '--memory', 'cuda', '--device', 'GPU-x').stderr)
        *_, verdict = self.check_devices(1, '--device', '7')
        self.assertIn("device '7' is not one of the 2 here", verdict)

    def test_command_lines(self):
        for args in (['--device', '1'], ['--memory', 'cuda', '--device', '-1'],
                     ['--memory', 'cuda', '--device', 'first'], ['--memory', 'cuda', '--device', '']):
            self.assertIn('--device', self.bench(2, '--ranks', '1', *args).stderr)
        for args in (['--device', '1'], ['--check', 'verbs', '--device', '1'], ['--check', 'cuda', '--device', 'x']):
            self.assertIn('--device', self.run_tool(2, INFO, *args).stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
