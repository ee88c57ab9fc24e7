#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vm_test.py SHAPE BUILD [CASE...]: cases of guest_cases.py, in one boot of the machine of rdma-vm.

SHAPE is "short" (2 nodes, one rail), "long" (4 nodes, 2 rails) or "siw" (2 nodes, soft-iWARP).
Without CASE all its cases run. Exit status 77, with a reason, where qemu or a kernel with the
driver is missing.

If a run fails and the kernel's log names functions of the RDMA driver, the driver has failed: such
names appear only in a report of a stall, a lockup or an oops. The case of the report is skipped,
and the cases that it prevented run in one more boot.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
RIG = os.path.join(HERE, 'rdma-vm')
SHAPES = {
    'short': (['--mtu', '4200', '--timeout', '560'],
              ['conformance', 'collectives', 'cut', 'cut-receiver', 'cut-short', 'memory-locked',
               'wrong-address', 'one-side']),
    'long': (['--nodes', '4', '--rails', '2', '--mem', '4096', '--timeout', '3000'],
             ['transports', 'collectives', 'large', 'kills', 'stopped', 'loss', 'delay', 'faults',
              'chaos', 'stress']),
    'siw': (['--driver', 'siw', '--mtu', '9000', '--timeout', '860'], ['conformance', 'collectives']),
}
DRIVERS = {'siw': ['--driver', 'siw']}
# siw of Debian 12's kernel applies RLIMIT_MEMLOCK to root, too.
UNLIMITED = ['bash', '-c', 'ulimit -l unlimited; exec "$@"', 'bash']
# "RIP: 0010:rxe_requester+0x323/0xe40 [rdma_rxe]", "  siw_sq_work+0x1/0x2"
FRAME = re.compile(r'\b((?:rxe|siw)_\w+)(?:\.\w+)*\+0x[0-9a-f]+/0x[0-9a-f]+')
VERSION = re.compile(r'^rdma-vm: kernel (\S+),', re.M)
MARK = re.compile(r'\brdma-vm case ([\w-]+)$', re.M)  # written by guest_cases.py
CASE = re.compile(r'^== ([\w-]+): (ok|FAILED) after ')


class Boot:
    """One boot, with these cases; prints the guest's output."""

    def __init__(self, options, words, cases, env):
        self.kernel, self.ended = 'unknown', {}
        with tempfile.NamedTemporaryFile('r', prefix='rdma-vm-console.', errors='replace') as console:
            command = [RIG, '--verbose', '--console', console.name, *options, '--', *words, *cases]
            with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors='replace') as rig:
                for line in rig.stdout:
                    self.read(line)
            self.status = rig.returncode
            self.log = console.read()

    def read(self, line):
        print(line, end='', flush=True)
        kernel, case = VERSION.match(line), CASE.match(line)
        if kernel:
            self.kernel = kernel.group(1)
        if case:
            self.ended[case.group(1)] = case.group(2) == 'ok'

    def driver_fault(self):
        """Returns the first function of the driver in the kernel's log, and the case at that point;
        or None."""
        frame = FRAME.search(self.log)
        cases = MARK.findall(self.log, 0, frame.start()) if frame else []
        return frame and frame.group(1), cases[-1] if cases else None


def run(boot, cases):
    """Returns the exit status of these cases. boot: makes a Boot of a list of cases."""
    first = boot(cases)
    function, culprit = first.driver_fault()
    before = cases[:cases.index(culprit)] if culprit in cases else []
    if first.status == 0 or not function or not all(first.ended.get(case) for case in before):
        return first.status
    rest = [case for case in cases if case != culprit and not first.ended.get(case)]
    print(f'skipped: {culprit}: the kernel {first.kernel} failed in {function}', flush=True)
    return boot(rest).status if rest else 0


def main():
    shape, build, *cases = sys.argv[1:]
    ready = subprocess.run([RIG, '--ready', *DRIVERS.get(shape, [])], capture_output=True, text=True, check=False)
    if ready.returncode != 0:
        print(ready.stderr.strip())
        sys.exit(77)
    options, all_cases = SHAPES[shape]
    # The system's interpreter, without site packages: it starts slowly in the guest.
    words = [*(UNLIMITED if shape == 'siw' else []), '/usr/bin/python3', '-I', '-S', os.path.join(HERE, 'guest_cases.py'),
             os.path.realpath(build)]
    # The long run expects a quiet machine: a dead rank is named within 2 s there.
    env = {'RDMA_VM_LATE_S': '2', **os.environ} if shape == 'long' else None
    sys.exit(run(lambda some: Boot(options, words, some, env), cases or all_cases))


if __name__ == '__main__':
    main()
