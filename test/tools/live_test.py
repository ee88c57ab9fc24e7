# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm-info --live: ranks of real jobs, stopped, spinning and asleep; and files that are no
status pages.

Usage: live_test.py RINGCOMM_INFO RINGCOMM_RUN HANG [TestClass[.test] ...]

HANG is the program of test/fault/hang_rank.c.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

INFO, RUN, HANG = sys.argv[1:4]
LIMIT = 50  # seconds: the limit of every step
MAGIC, PAGE = 0x5243504147453039, 65536  # api/diagnosis/status_page.h
RANGES = 7  # transport/protocol.h: RCMI_PROTOCOL_MAP
F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK = 1033, 1, 2


def info(*args, status=0):
    done = subprocess.run([INFO, '--live', *args], capture_output=True, timeout=LIMIT, check=False)
    assert done.returncode == status, f'{args}: {done}'
    done.stderr.decode()  # must be valid text
    return done.stdout.decode(), done.stderr.decode()


def live(*args):
    out = json.loads(info(*args, '--json', '-')[0])
    return out['info'], out['rows']


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end(job):
    try:
        job.wait(10)  # its ranks are dead by now
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()
    job.stdout.close()


def stat(pid):
    """Returns the fields after the process name in /proc: its state, ..."""
    with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
        return f.read().rsplit(')', 1)[1].split()


def ticks(pid):
    fields = stat(pid)
    return int(fields[11]) + int(fields[12])


def stop(pid):
    """A process needs a processor before it can stop."""
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + LIMIT
    while stat(pid)[0] != 'T' and time.monotonic() < until:
        time.sleep(0.01)


class Live(unittest.TestCase):
    def start(self, n, scene, odd, **env):
        """Starts a job; returns the pids by rank when all are past their barrier."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith('RINGCOMM_')}
        job = subprocess.Popen(
            [RUN, '-n', str(n), '--bind', 'none', '--timeout', str(LIMIT), '--', HANG, scene,
             str(odd), '0'],
            env={**clean, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(end, job)
        pids = {}
        while len(pids) < n:
            line = job.stdout.readline()
            self.assertTrue(line, 'the job ended')
            match = re.match(rb'\[(\d+)\] pid (\d+)', line)
            if match:
                pids[int(match[1])] = int(match[2])
        for pid in pids.values():
            self.addCleanup(kill, pid)
        return pids

    def until(self, pid, condition):
        """Repeats the query until the others wait."""
        deadline = time.monotonic() + LIMIT
        while True:
            notes, rows = live(str(pid))
            if condition(notes, {r['rank']: r for r in rows}):
                return notes, {r['rank']: r for r in rows}
            self.assertLess(time.monotonic(), deadline, f'{notes}\n{rows}')
            time.sleep(0.2)

    def waiting(self, pids, odd, **state):
        """All ranks wait for rank odd, which is in no operation; returns the conclusion."""
        notes, rows = self.until(pids[0], lambda notes, rows: all(
            (r['seconds'] or 0) > 1 for k, r in rows.items() if k != odd))
        self.assertEqual(sorted(rows), sorted(pids))
        for rank, row in rows.items():
            self.assertEqual((row['pid'], row['size'], row['program']),
                             (pids[rank], len(pids), 'fault-hang'))
            self.assertIn(state.get('transport', 'shm'), row['transports'])
            if rank == odd:
                self.assertEqual(row['operation'],
                                 'no operation since it finished barrier number 2')
                self.assertIsNone(row['seconds'])
            else:
                self.assertIn('all_reduce number 3 of 1000 float32, sum (', row['operation'])
                self.assertEqual((row['state'], row['sequence']), ('busy', 3))
                self.assertGreater(row['steps'], 0)
        self.assertEqual(rows[odd]['state'], state.get('state', 'idle'))
        jobs = {k: v for k, v in notes.items() if k.startswith('job ')}
        self.assertEqual(list(jobs), [f'job {rows[odd]["job"]}'])
        return list(jobs.values())[0]

    def check_never_called(self, transport, **env):
        pids = self.start(4, 'wait', 2, RINGCOMM_TRANSPORT=transport, **env)
        text = self.waiting(pids, 2, transport=transport)
        self.assertEqual(text, f'rank 2 (pid {pids[2]}) never called all_reduce number 3: it is '
                         'alive, but in no operation since it finished barrier number 2; '
                         'all others wait for it')
        return pids

    def test_absent_shm(self):
        self.check_never_called('shm')

    def test_absent_tcp(self):
        self.check_never_called('tcp')

    def test_spinning(self):
        """A rank that spins forever is found as well, and a stopped one."""
        pids = self.check_never_called('shm', RINGCOMM_SPIN_US='60000000')
        stop(pids[0])
        text = live(str(pids[1]))[1]
        self.assertEqual({r['rank']: r['state'] for r in text},
                         {0: 'stopped', 1: 'busy', 2: 'idle', 3: 'busy'})

    def test_stopped_is_named(self):
        for transport in ('shm', 'tcp'):
            pids = self.start(3, 'wait', 1, RINGCOMM_TRANSPORT=transport)
            stop(pids[1])
            text = self.waiting(pids, 1, state='stopped', transport=transport)
            self.assertIn(f'rank 1 (pid {pids[1]}) is stopped; it never called all_reduce', text)
            # Also when the query names that rank.
            self.assertEqual(len(live(str(pids[1]))[1]), 3)

    def test_receives(self):
        pids = self.start(3, 'receives', 1)
        notes, rows = self.until(pids[0], lambda notes, rows: any(
            'never called' in text for text in notes.values()))
        self.assertEqual(rows[1]['operation'], 'recv from rank 2 (tag 7)')
        self.assertEqual((rows[1]['waits_for'], rows[1]['sequence']), (2, None))
        self.assertIn('it is in recv from rank 2 (tag 7)', str(notes))

    def test_ways(self):
        """The job's constants are shown, as set at its start."""
        pids = self.start(2, 'wait', 0, RINGCOMM_PROTOCOL='eager=0-5K,sum_non_temporal=7M-')
        notes, rows = live(str(pids[0]))
        ways = notes[f'protocols of job {rows[0]["job"]}']
        match = re.fullmatch(r'(\w+=\S+(?: \w+=\S+)*) \((roomy|oversubscribed)\)', ways)
        self.assertTrue(match, ways)
        ranges = dict(word.split('=') for word in match[1].split())
        self.assertEqual((ranges['eager'], ranges['sum_non_temporal']), ('0-5K', '7M-'))
        self.assertIn('get', ranges)
        # The output is valid in RINGCOMM_PROTOCOL.
        again = self.start(2, 'wait', 0, RINGCOMM_PROTOCOL=match[1])
        notes, rows = live(str(again[0]))
        self.assertEqual(notes[f'protocols of job {rows[0]["job"]}'], ways)

    def near(self, env, n=3):
        """The note on near ranks of a job; env: RINGCOMM_NEAR."""
        pids = self.start(n, 'wait', 0, RINGCOMM_TRANSPORT='shm', **env)
        notes, rows = live(str(pids[0]))
        return notes[f'near ranks of job {rows[0]["job"]}']

    def test_near(self):
        self.assertEqual(self.near({'RINGCOMM_NEAR': '1'}),
                         'ranks 0-2 are near each other (set by RINGCOMM_NEAR)')
        self.assertEqual(self.near({'RINGCOMM_NEAR': '0'}),
                         'ranks 0-2 are far from all others (set by RINGCOMM_NEAR)')
        self.assertRegex(self.near({}), r'^ranks? 0')

    def test_all_jobs(self):
        first, second = self.start(2, 'wait', 0), self.start(3, 'wait', 0)
        rows = live()[1]
        ours = {r['pid']: r['job'] for r in rows}
        for pids in (first, second):
            self.assertEqual(len({ours[p] for p in pids.values()}), 1)
        self.assertNotEqual(ours[first[0]], ours[second[0]])
        # The query names one job: no other is shown.
        self.assertEqual({r['pid'] for r in live(str(first[1]))[1]}, set(first.values()))
        self.assertIn(f'{first[1]}', info(str(first[0]))[0])

    def test_costs_nothing(self):
        pids = self.check_never_called('shm')
        before = {pid: ticks(pid) for pid in pids.values()}
        for _ in range(20):
            live(str(pids[0]))
        for pid, then in before.items():
            self.assertLess(ticks(pid) - then, 20, 'ticks of CPU while it was looked at')


class InvalidPages(unittest.TestCase):
    def file(self, content, size=4096 + PAGE, seals=F_SEAL_SHRINK | F_SEAL_SEAL):
        fd = os.memfd_create('ringcomm', os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, fd)
        os.ftruncate(fd, size)
        os.pwrite(fd, content, min(4096, max(size - len(content), 0)))
        fcntl.fcntl(fd, F_ADD_SEALS, seals)

    @staticmethod
    def page(magic=MAGIC, size=PAGE, pid=None, rank=0, ranks=2, ways=b'', rest=b'', more=b'',
             near=(0, -1, 0)):
        """A page of a rank with one communicator, or with more."""
        pid = os.getpid() if pid is None else pid
        head = struct.pack('<QIiiiQ', magic, size, pid, rank, ranks, 0xabcdef) + ways
        head = head.ljust(64 + 16 * RANGES, b'\0') + struct.pack('<Iii', *near)
        comm = struct.pack('<Qii', 7, rank, ranks) + rest
        return head.ljust(512, b'\0') + comm.ljust(512, b'\0') + more

    def mine(self):
        return [r for r in live()[1] if r['pid'] == os.getpid()]

    def test_no_rank(self):
        err = info(str(os.getpid()), status=1)[1]
        self.assertIn('is not a rank', err)
        self.assertIn('does not exist', info('4194304', status=1)[1])

    def test_nonsense_is_not_shown(self):
        self.file(b'')
        self.file(random.Random(1).randbytes(4096))
        self.file(self.page(), size=4095 + PAGE)          # too short
        self.file(self.page(), seals=F_SEAL_SEAL)  # could shrink
        self.file(self.page(magic=MAGIC - 1))      # another version
        self.file(self.page(size=PAGE - 4))
        self.file(self.page(rank=2))
        self.file(self.page(pid=0))
        self.assertEqual(self.mine(), [])

    def test_hostile_content(self):
        """A valid page with random data in the rest."""
        for i in range(40):
            self.file(self.page(rank=i % 7, ranks=7 + i % 2 * 2**30,
                                rest=random.Random(i).randbytes(496)))
        self.file(self.page(rest=b'\xff' * 496))
        self.assertEqual(len(self.mine()), 41)
        self.file(self.page(more=random.Random(1).randbytes(PAGE - 1024)))
        self.assertGreater(len(self.mine()), 41)
        out = info(str(os.getpid()))[0]
        self.assertTrue(all(c == '\n' or ' ' <= c <= '~' for c in out), repr(out))

    def test_program_name(self):
        libc = ctypes.CDLL(None)
        libc.prctl(15, b'\x1b[31m\n"evil', 0, 0, 0)  # PR_SET_NAME
        self.addCleanup(libc.prctl, 15, b'python3', 0, 0, 0)
        self.file(self.page())
        self.assertEqual([r['program'] for r in self.mine()], ['?[31m'])

    def test_ways_differ(self):
        for rank, first in enumerate((16 << 10, 32 << 10)):
            self.file(self.page(rank=rank,
                                ways=struct.pack(f'<{2 + 2 * RANGES}Q', 2**64 - 1, 1, *(first, 2**64 - 1) * RANGES)))
        notes, rows = live(str(os.getpid()))
        for row in rows:
            self.assertRegex(row['transports'], '^self, shm, (verbs, )?tcp, cuda_ipc$')
        ways = notes[f'protocols of job {0xabcdef:016x}']
        self.assertRegex(ways, r'^eager=16K- .*\(oversubscribed; not the same on all ranks\)$')

    def test_near_groups(self):
        """Ranks 0 to 3 share one cache, 5 and 6 another, and 4 and 7 none."""
        cache, guest, far = 5, 2, 77  # enum rcmi_locality_source
        for rank, near in enumerate([(cache, 0, 3)] * 4 + [(guest, -1, 0)] +
                                    [(cache, 1000, 1)] * 2 + [(far, -5, 0)]):
            self.file(self.page(rank=rank, ranks=8, near=near))
        note = live(str(os.getpid()))[0][f'near ranks of job {0xabcdef:016x}']
        reason = 'by the last-level cache of their CPUs'
        first, second, third, fourth = note.split('; ')
        self.assertRegex(first, rf'^ranks 0-3 are near each other \({reason}(, CPUs 0\S*)?\)$')
        self.assertEqual(second, 'rank 4 is far from all others (a virtual machine does not show '
                         'which cache a CPU uses)')
        self.assertEqual(third, f'ranks 5-6 are near each other ({reason})')
        self.assertEqual(fourth, 'rank 7 is far from all others (unknown)')


class Usage(unittest.TestCase):
    def test_usage(self):
        for args in (['0'], ['-3'], ['x'], ['1', '2'], ['4711x'], ['--settings']):
            info(*args, status=2)
        done = subprocess.run([INFO, '12'], capture_output=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 2)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
