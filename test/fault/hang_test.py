# SPDX-License-Identifier: BSD-3-Clause
"""Hang reports: one rank prints one table, which names the culprit, whatever that rank does.

A rank needs a processor to do what the report expects of it. If a case fails and the ranks waited
long for one, according to their own counters, it runs again with more time.

Usage: hang_test.py RINGCOMM_RUN HANG CASE RANKS (of the case many)
"""
import os
import re
import subprocess
import sys

RUN, HANG, CASE, MANY = sys.argv[1:4] + [int(sys.argv[4])]
slower = 1  # factor by which deadlines are longer than usual
queued = 0  # part of the shorter of deadline and inquiry that a rank of the last job queued
INQUIRY_MS = 800  # twice the time that an inquiry waits for answers
ROW = re.compile(r'  (\S+)  +(\S+)  +(\S+)  +(.*?)  +(\S+)  +(\S+)  +(rank \d+|several|-)  +(.*)$')


def run(n, scene, odd, ms, env=None, each=None):
    """Runs n ranks; each: shell text before a rank's program. Returns lines of stdout, stderr."""
    global queued
    clean = {k: v for k, v in os.environ.items() if not k.startswith('RINGCOMM_')}
    clean.update({'RINGCOMM_WARN_AFTER': '0'}, **(env or {}))
    command = f'{each or ":"}; exec {HANG} {scene} {odd} {ms * slower}'
    done = subprocess.run([RUN, '-n', str(n), '--bind', 'none', '--timeout', '50', '--', 'sh', '-c', command],
                          env=clean, capture_output=True, text=True, timeout=60, check=False)
    waits = [int(ms) for ms in re.findall(r'queued (\d+) ms', done.stdout)]
    queued = max(waits, default=0) / min(ms * slower, INQUIRY_MS)
    return done.returncode, done.stdout, done.stderr


class Report:
    def __init__(self, err):
        self.err = err
        # The launcher repeats the last lines of the failed rank, after a bar.
        lines = re.findall(r'^\[\d+\] ringcomm \[rank (\d+)\] warning: (.*)', err, re.M)
        heads = [(int(rank), text) for rank, text in lines if not text.startswith('  ')]
        assert len(heads) == 1, f'{len(heads)} reports, not one:\n{err}'
        self.rank, self.head = heads[0]
        assert {int(rank) for rank, _ in lines} == {self.rank}, f'several ranks wrote:\n{err}'
        table = [text for _, text in lines if text.startswith('  ')]
        calls = [i for i, text in enumerate(table) if text.startswith('  called by ')]
        assert len(calls) == 1, f'no calls:\n{err}'
        assert table[calls[0]] == f'  called by rank {self.rank}, the last first:', err
        self.calls = [text.strip() for text in table[calls[0] + 1:]]
        del table[calls[0]:]
        assert table[0].split()[:3] == ['rank', 'host', 'pid'], err
        self.rows = {}
        for text in table[1:]:
            match = ROW.match(text)
            assert match, f'no row: {text!r}\n{err}'
            self.rows[match[1]] = match.groups()[1:]

    def contains(self, *words):
        for word in words:
            assert word in self.head, f'{word!r} is not in {self.head!r}\n{self.err}'

    def row(self, ranks, *words):
        assert str(ranks) in self.rows, f'no row {ranks}:\n{self.err}'
        text = ' | '.join(self.rows[str(ranks)])
        for word in words:
            assert word in text, f'{word!r} is not in {text!r}\n{self.err}'


def case_absent(transport):
    for n, odd in ((4, 2), (2, 0), (5, 4)):
        status, out, err = run(n, 'absent', odd, 500, {'RINGCOMM_TRANSPORT': transport})
        assert status == 0, f'status {status}\n{out}\n{err}'
        report = Report(err)
        assert report.rank != odd, err
        report.contains(f'did not finish within its deadline of {0.5 * slower:.1f} s',
                    f'rank {odd} (pid ',
                    'never called all_reduce number 3: it is alive, but in no operation since it '
                    'finished barrier number 2')
        assert len(report.rows) == n, err
        report.row(odd, 'no operation since it finished barrier number 2')
        pids = dict(re.findall(r'\[(\d+)\] pid (\d+)', out))
        for rank in range(n):
            report.row(rank, pids[str(rank)], '')
            if rank != odd:
                report.row(rank, 'all_reduce number 3 of 1000 float32, sum (', ' s')
        # Every rank's error contains it, too.
        assert out.count(f'never called all_reduce number 3: it is') == n, out


def case_stopped(transport):
    _, out, err = run(4, 'stopped', 1, 500, {'RINGCOMM_TRANSPORT': transport})
    report = Report(err)
    report.contains('rank 1 (pid ', 'is stopped')
    report.row(1, 'stopped')
    if transport == 'shm':  # its page can still be read
        report.contains('never called all_reduce number 3')
        report.row(1, 'stopped, in no operation since it finished barrier number 2')
    for rank in (0, 2, 3):
        report.row(rank, 'all_reduce number 3 of 1000 float32, sum (')
    assert out.count('RCM_ERR_TIMEOUT') == 3, out


def case_hidden(transport):
    """Stopped, too, but in a process namespace of its own, where no other process can see it."""
    inside = 'unshare --pid --fork --kill-child'
    if subprocess.run([*inside.split(), 'true'], capture_output=True, check=False).returncode != 0:
        print('no process namespaces can be made here')
        sys.exit(77)
    each = f'test $RANK != 1 || exec {inside} sh -c "{HANG} hidden 1 {500 * slower}; exit $?"'
    _, out, err = run(4, 'hidden', 1, 500, {'RINGCOMM_TRANSPORT': transport}, each)
    report = Report(err)
    report.contains('rank 1 (pid ', 'does not answer: it is stopped, hangs, or cannot be reached')
    report.row(1, 'no answer')
    for rank in (0, 2, 3):
        report.row(rank, 'all_reduce number 3 of 1000 float32, sum (')
    assert out.count('RCM_ERR_TIMEOUT') == 3, out


def case_receives(transport):
    status, out, err = run(3, 'receives', 1, 500, {'RINGCOMM_TRANSPORT': transport})
    assert status == 0, f'status {status}\n{out}\n{err}'
    report = Report(err)
    report.contains('rank 1 (pid ', 'never called all_reduce number 3: it is in recv from rank 2 '
                '(tag 7)')
    report.row(1, 'recv from rank 2 (tag 7)', 'rank 2', ' s')


def case_warning(transport):
    """No deadline passes, one rank is slow: a warning, and the operation succeeds."""
    status, out, err = run(4, 'slow', 3, 2500,
                           {'RINGCOMM_TRANSPORT': transport, 'RINGCOMM_WARN_AFTER': '1'})
    assert status == 0 and out.count('RCM_OK') == 4, f'status {status}\n{out}\n{err}'
    report = Report(err)
    report.contains('no progress for 1 s in all_reduce number 3 (4000 bytes) on rank ',
                'rank 3 (pid ', 'never called all_reduce number 3', 'in no operation')
    assert 'error' not in err, err


def case_hosts(transport):
    """Two hosts of three ranks, distinguished by name; a rank of the other host stops."""
    each = 'export RINGCOMM_HOST_ID=host$((RANK / 3))'
    _, out, err = run(6, 'stopped', 4, 700, each=each)
    report = Report(err)
    report.contains('rank 4 (pid ', 'is stopped')
    report.row(4, 'stopped')
    for rank in (0, 1, 2, 3, 5):
        report.row(rank, 'all_reduce number 3 of 1000 float32, sum (')
    assert out.count('RCM_ERR_TIMEOUT') == 5, out


def case_many(transport):
    """Equal ranks share a line."""
    status, out, err = run(MANY, 'absent', 7, 3000, {'RINGCOMM_TRANSPORT': transport})
    assert status == 0, f'status {status}\n{out}\n{err}'
    report = Report(err)
    report.contains('rank 7 (pid ', 'never called all_reduce number 3')
    report.row(7, 'no operation')
    report.row(f'0-6,8-{MANY - 1}', 'all_reduce number 3 of 1000 float32, sum (')
    assert len(report.rows) == 2, err


def calls_end(report, sums):
    """The last calls: one that hangs, after so many sums of different lengths."""
    last = int(report.calls[0].split(':')[0])
    for i in range(1, sums + 1):
        assert report.calls[i].startswith(f'{last - i}: all_reduce of {41 - i} float32'), report.err
    return last


def case_calls(transport):
    """The last thousand calls: a number of lines that people can read, or all."""
    status, out, err = run(3, 'calls', 1, 1500, {'RINGCOMM_TRANSPORT': transport})
    assert status == 0, f'status {status}\n{out}\n{err}'
    report = Report(err)
    assert len(report.calls) == 21 and report.calls[20].startswith('and others before'), err
    calls_end(report, 19)
    _, out, err = run(3, 'calls', 1, 1500, {'RINGCOMM_TRANSPORT': transport, 'RINGCOMM_LOG': 'info'})
    report = Report(err)
    last = calls_end(report, 40)
    assert len(report.calls) == 42, err
    assert re.match(rf'{last - 1023} to {last - 41}: barrier \(\w+\), 983 times$', report.calls[41]), err


def main():
    global slower
    name, transport = CASE.split('-')
    while True:
        try:
            return globals()['case_' + name](transport)
        except AssertionError as error:
            if slower == 8 or queued < 0.5:
                raise
            print(f'{error}\nqueued for a processor for {queued:.0%} of it; once more')
        slower *= 2


if __name__ == '__main__':
    main()
