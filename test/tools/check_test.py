#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of a machine: check_test.py ODD RINGCOMM_INFO [UNITTEST ARGS]

ODD (check_odd.c) has tests that go wrong in each way."""
import json
import subprocess
import sys
import unittest

ODD, INFO = sys.argv[1:3]


def run(*args, status, env=None):
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done


class Frame(unittest.TestCase):
    def report(self, name, status, env=None):
        """Facts: (test, of, name) -> value; sentences to mend; results; the verdict."""
        done = run(ODD, name, status=status, env=env)
        told = json.loads(done.stdout)
        facts, mends, results = {}, [], []
        for row in told['rows']:
            if row['name'] == 'mend':
                mends.append(row['text'])
            elif row['name'] == 'result':
                results.append((row['test'], row['value']))
            else:
                facts[row['test'], row['of'], row['name']] = row['value']
        self.stderr = done.stderr
        return facts, mends, results, told['verdict']

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
        self.assertEqual(run(ODD, 'first', status=0, env={**two, 'RANK': '1'}).stdout, '')


class Usage(unittest.TestCase):
    def test_usage(self):
        self.assertIn('only verbs', run(INFO, '--check', 'none', status=2).stderr)
        self.assertIn('no section', run(INFO, '--check', 'verbs', '--cpus', status=2).stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
