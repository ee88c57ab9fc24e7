#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vm_test.py SHAPE BUILD [CASE...]: cases of inside.py, in one boot of the machine of rdma-vm.

SHAPE is "short" (2 nodes, one rail), "long" (4 nodes, 2 rails) or "siw" (2 nodes, soft-iWARP); without
CASE it is all that belong to it. Exit status 77, with a sentence, where qemu or a kernel with the driver is
not there.
"""
import os
import subprocess
import sys

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
# siw of Debian 12's kernel holds the superuser to RLIMIT_MEMLOCK, too.
UNLIMITED = ['bash', '-c', 'ulimit -l unlimited; exec "$@"', 'bash']
HUNG = 'soft lockup'


def run(command, env):
    """Its status, and whether the guest's kernel hung: soft-RoCE of Linux 6.1 does at times, when a link goes
    down, on all its processors."""
    hung = False
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, errors='replace') as rig:
        for line in rig.stderr:
            sys.stderr.write(line)
            hung = hung or HUNG in line
    return rig.returncode, hung


def main():
    shape, build, *cases = sys.argv[1:]
    ready = subprocess.run([RIG, '--ready', *DRIVERS.get(shape, [])], capture_output=True, text=True, check=False)
    if ready.returncode != 0:
        print(ready.stderr.strip())
        sys.exit(77)
    options, all_cases = SHAPES[shape]
    # The system's interpreter, with nothing that is not needed: starting it is slow in there.
    words = [*(UNLIMITED if shape == 'siw' else []), '/usr/bin/python3', '-I', '-S', os.path.join(HERE, 'inside.py'),
             os.path.realpath(build), *(cases or all_cases)]
    # The long run is for a quiet machine: there a dead rank is named within 2 s.
    env = {'RDMA_VM_LATE_S': '2', **os.environ} if shape == 'long' else None
    command = [RIG, '--verbose', *options, '--', *words]
    status, hung = run(command, env)
    if status != 0 and hung:
        print("the guest's kernel hung: once more, in another boot", flush=True)
        status, hung = run(command, env)
    sys.exit(status)


if __name__ == '__main__':
    main()
