# SPDX-License-Identifier: BSD-3-Clause
"""Ranks in a control group with a CPU quota: two on 1 CPU share it, two on 2 CPUs do not, and
ringcomm-info prints the quota of the parent group. Skipped where no group can be made.
Usage: quota_test.py RINGCOMM_INFO RINGCOMM_BENCH"""
import os
import subprocess
import sys
import time

SKIPPED = 77
V1 = '/sys/fs/cgroup/cpu'


class Group:
    """A group with the quota, in percent of a CPU, and a child group without one."""
    def __init__(self, percent):
        first = os.path.exists(f'{V1}/cpu.cfs_quota_us')
        mount = V1 if first else '/sys/fs/cgroup'
        self.outer = f'{mount}/ringcomm-test-{os.getpid()}-{percent}'
        self.inner = self.outer + '/inner'
        os.makedirs(self.inner)
        if first:
            self.put('cpu.cfs_period_us', '100000')
            self.put('cpu.cfs_quota_us', str(percent * 1000))
        else:
            self.put('cpu.max', f'{percent * 1000} 100000')

    def put(self, name, text):
        with open(f'{self.outer}/{name}', 'w', encoding='ascii') as file:
            file.write(text)

    def enter(self):
        with open(self.inner + '/cgroup.procs', 'w', encoding='ascii') as file:
            file.write(str(os.getpid()))

    def end(self):
        for _ in range(100):
            try:
                os.rmdir(self.inner)
                break
            except OSError:
                time.sleep(0.05)
        os.rmdir(self.outer)


def sharing_of(info, bench, group):
    """Returns what the status pages of a job's ranks in the group show."""
    job = subprocess.Popen([bench, 'all_reduce', '--ranks', '2', '--sizes', '8', '-n', '1000000'],
                           preexec_fn=group.enter, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(200):
            with open(group.inner + '/cgroup.procs', encoding='ascii') as file:
                pids = file.read().split()
            for pid in pids:
                live = subprocess.run([info, f'--live={pid}'], capture_output=True, text=True,
                                      check=False).stdout
                for word in ('oversubscribed', 'roomy'):
                    if f'({word}' in live:
                        return word
            time.sleep(0.1)
        return 'not to be seen'
    finally:
        os.killpg(job.pid, 9)
        job.wait()


def check(info, bench, percent, expected):
    """Returns a line for what is wrong."""
    group = Group(percent)
    try:
        row = subprocess.run([info, '--cpus'], preexec_fn=group.enter, capture_output=True,
                             text=True, check=True).stdout
        if f'{percent / 100:.2f}' not in row or group.outer + '/' not in row:
            return f'{percent} %: ringcomm-info prints\n{row}'
        found = sharing_of(info, bench, group)
        return '' if found == expected else f'{percent} %: ranks are {found}, not {expected}'
    finally:
        group.end()


def main():
    info, bench = sys.argv[1:]
    rows = [(50, 'oversubscribed'), (150, 'oversubscribed')]
    if len(os.sched_getaffinity(0)) >= 2:
        rows.append((200, 'roomy'))
    try:
        Group(1).end()
    except OSError as error:
        print(f'skipped: {error}')
        sys.exit(SKIPPED)
    wrong = [line for line in (check(info, bench, *row) for row in rows) if line]
    sys.exit('\n'.join(wrong) or 0)


if __name__ == '__main__':
    main()
