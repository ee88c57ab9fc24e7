#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a machine: check_test.py CHECKS RINGCOMM_INFO RINGCOMM_RUN FAKE_INFO [UNITTEST ARGS]

CHECKS (failing_checks.c) has tests that fail in each way; FAKE_INFO is ringcomm-info with fake RDMA
devices (test/verbs/fake_devices_info.c), "" in a build without RDMA."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

CHECKS, INFO, RUN, FAKE_INFO = (path and os.path.abspath(path) for path in sys.argv[1:5])


def run(*args, status, env=None):
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done


def read(stdout):
    """Returns facts: (test, of, name) -> value; advice; results; the verdict."""
    report = json.loads(stdout)
    facts, mends, results = {}, [], []
    for row in report['rows']:
        if row['name'] == 'mend':
            mends.append(row['text'])
        elif row['name'] == 'result':
            results.append((row['test'], row['value']))
        else:
            facts[row['test'], row['of'], row['name']] = row['value']
    return facts, mends, results, report['verdict']


class Frame(unittest.TestCase):
    def report(self, name, status, env=None):
        done = run(CHECKS, name, status=status, env=env)
        self.stderr = done.stderr
        return read(done.stdout)

    def test_good(self):
        facts, mends, results, verdict = self.report('good', 0)
        self.assertEqual(facts, {('well', 'thing0', 'speed'): '7 GB/s'})
        self.assertEqual((mends, verdict), ([], 'OK'))
        self.assertEqual(results, [('well', 'ok')] * 2)
        self.assertIn('what a driver prints', self.stderr)

    def test_later(self):
        _, mends, results, verdict = self.report('later', 1)
        self.assertEqual(mends, [
            'thing1 is "off": turn it on', 'thing2 is off',
            "the test 'exit' ended with exit status 3", "the test 'hang' did not end within 1 s"])
        self.assertEqual(verdict, mends[0])
        self.assertEqual(results, [('well', 'ok'), ('wrong', 'mend'), ('exit', 'crashed'),
                                   ('hang', 'hung'), ('well', 'ok')])

    def test_first(self):
        facts, _, results, verdict = self.report('first', 1)
        self.assertEqual(facts[('crash', None, 'before')], 'yes')
        self.assertEqual(verdict, "the test 'crash' crashed: Segmentation fault")
        self.assertEqual(results, [('crash', 'crashed'), ('well', 'left out'), ('well', 'left out')])

    def test_of_job(self):
        two = {'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '1'}
        results = self.report('first', 1, {**two, 'RANK': '0'})[2]
        self.assertEqual(results[-1], ('well', 'ok'))
        other = run(CHECKS, 'first', status=0, env={**two, 'RANK': '1'})
        self.assertEqual(other.stdout, '')
        self.assertIn("rank 1: the test 'crash' crashed: Segmentation fault", other.stderr)


@unittest.skipIf(FAKE_INFO == '', 'a build without RDMA')
class Verbs(unittest.TestCase):
    def check(self, devices, status, **env):
        done = run(FAKE_INFO, '--check', 'verbs', '--json', '-', status=status,
                   env={**os.environ, 'FAKE_DEVICES': devices, **env})
        return read(done.stdout)

    def test_well(self):
        facts, mends, results, verdict = self.check('two', 0)
        self.assertEqual((mends, verdict), ([], 'OK'))
        self.assertEqual(results, [(test, 'ok') for test in
                                   ('devices', 'ports', 'memory', 'loopback', 'transport')] +
                         [('pairs', 'left out')])
        self.assertEqual(facts['ports', 'fake1:1', 'GID 1'], '::ffff:10.0.0.2, RoCE v2, IPv4')
        self.assertEqual(facts['ports', 'fake0:1', 'MTU'], '1024 of 4096')
        self.assertIn('by GID 1, network 10.0.0.0/24, 103.1', facts['ports', 'fake0:1', 'used'])
        self.assertRegex(facts['loopback', 'fake1:1', 'loopback'], r'us, .* GB/s, data right$')
        self.assertGreater(int(facts['memory', None, 'locked for each peer'].split()[0]), 1 << 20)

    def test_iwarp(self):
        facts, mends, _, verdict = self.check('iwarp', 0)
        self.assertEqual((mends, verdict), ([], 'OK'))
        self.assertRegex(facts['ports', 'fake0:1', 'used'], r'^at 10\.0\.0\.1, TCP port \d+ of this test, network iWARP ')
        self.assertNotIn(('ports', 'fake0:1', 'GID 0'), facts)

    def test_last_line(self):
        for devices, status, line in (('two', 0, 'OK'),
                                      ('down', 1, 'fake1:1 is of no use: it is down: no cable, or')):
            done = run(FAKE_INFO, '--check', 'verbs', status=status,
                       env={**os.environ, 'FAKE_DEVICES': devices})
            self.assertTrue(done.stdout.splitlines()[-1].startswith(line), done.stdout)

    def test_of_no_use(self):
        for devices, sentence, left_out in (
                ('none', 'RDMA device', 5), ('efa', 'fake0 is of no use: it has no reliable', 5),
                ('down', 'fake1:1 is of no use: it is down', 4)):
            _, mends, results, verdict = self.check(devices, 1)
            self.assertIn(sentence, verdict)
            self.assertEqual(mends, [verdict])
            self.assertEqual([value for _, value in results].count('left out'), left_out)

    def test_loopback(self):
        for devices, sentence in (('fail', 'remote access error'), ('cut', 'retry counter exceeded')):
            verdict = self.check(devices, 1, RINGCOMM_PEER_TIMEOUT='1')[3]
            self.assertEqual(verdict.split(':')[:2], ['fake0', '1'])
            self.assertIn('loopback failed: ', verdict)
            self.assertIn(sentence, verdict)

    def pairs(self, devices, hosts, ranks=2, **env):
        one = f'RINGCOMM_HOST_ID={hosts} exec {FAKE_INFO} --check verbs --json "report.$RANK"'
        with tempfile.TemporaryDirectory() as folder:
            run(RUN, '-n', str(ranks), '--', 'sh', '-c', f'cd {folder} && {one}', status=1,
                env={**os.environ, 'FAKE_DEVICES': devices, 'RINGCOMM_PEER_TIMEOUT': '1', **env})
            self.assertEqual(os.listdir(folder), ['report.0'])
            with open(os.path.join(folder, 'report.0'), encoding='utf-8') as file:
                return read(file.read())

    def test_pairs_apart(self):
        """Two processes, each with fake devices of its own: a link by verbs is declined."""
        facts, mends, _, verdict = self.pairs('two', '$RANK')
        self.assertRegex(facts['pairs', '0-1', 'linked by'], '^tcp, .* us, .* GB/s, data right$')
        self.assertEqual(mends, [verdict])
        self.assertIn('ranks 0 and 1 are linked by tcp: rank ', verdict)
        self.assertIn('declined it: RDMA with rank', verdict)

    def test_pairs_without(self):
        facts, mends, *_ = self.pairs('efa', '$RANK')
        self.assertIn('tcp, ', facts['pairs', '0-1', 'linked by'])
        self.assertTrue(mends[1].startswith('rank 1 on '), mends)
        self.assertIn('has no RDMA: fake0 is of no use: it has no reliable', mends[2])

    def test_pairs_together(self):
        facts, mends, *_ = self.pairs('none', 'one', ranks=4)
        linked = [of for _, of, what in facts if what == 'linked by']
        self.assertEqual(linked, ['0-1', '1-2', '2-3', '0-3', '0-2', '1-3'])
        for of in linked:
            self.assertRegex(facts['pairs', of, 'linked by'], '^shm, .* GB/s, data right$')
        self.assertEqual(facts['pairs', 'all pairs', 'measured'], '6 of 6')
        self.assertEqual(len(mends), 4) # each rank reports that it has no device

    def test_demanded(self):
        *_, mends, _, _ = self.pairs('efa', '$RANK', RINGCOMM_TRANSPORT='verbs')
        self.assertIn('no transport of RINGCOMM_TRANSPORT=verbs serves ranks 0 and 1', mends[-1])
        self.assertIn('on rank 0 verbs cannot be used: fake0 is of no use', mends[-1])


class Usage(unittest.TestCase):
    def test_usage(self):
        self.assertIn('only cuda, verbs', run(INFO, '--check', 'none', status=2).stderr)
        self.assertIn('with a section', run(INFO, '--check', 'verbs', '--cpus', status=2).stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
