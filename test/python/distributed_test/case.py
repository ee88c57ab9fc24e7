# SPDX-License-Identifier: BSD-3-Clause
"""torch's DistributedTest as a unittest case whose ranks are forked from this process.

torch's own case spawns an interpreter per rank and test, and importing torch takes seconds. Here torch is
imported once. Everything else is torch's: the process group per test, the check of exit statuses, the skip
conditions.

The environment must have BACKEND, WORLD_SIZE and INIT_METHOD when this module is imported: torch
reads them while it defines the tests.
"""
import ctypes
import faulthandler
import mmap
import multiprocessing.connection
import os
import re
import signal
import struct
import sys
import time

import torch
from torch.testing._internal import common_distributed
from torch.testing._internal.common_distributed import DistTestCases

RANKS = int(os.environ['WORLD_SIZE'])
NAME = os.environ['BACKEND']
for feature in ('ddp', 'subgroup', 'plugin'):
    DistTestCases.backend_feature[feature].update((NAME, 'ringcomm'))  # an alias becomes ringcomm

from torch.testing._internal.distributed import distributed_test  # noqa: E402

# Skip reasons that depend only on the backend's name. Reasons that depend only on NCCL or CUDA are not listed.
GATES = re.compile(r"Only MPI supports|Only [Gg]loo |Only Nccl & Gloo|GLOO Batch|one of \{.*'gloo'|"
                   r'only supported on mpi, nccl and gloo|backend does not support DDP communication')
PR_SET_PDEATHSIG = 1  # linux/prctl.h
FAILED_GRACE = 1.0  # seconds for other ranks, after one failed, to fail as well


def open_gates():
    for name in test_names():
        test = getattr(Case, name)
        if GATES.search(getattr(test, '__unittest_skip_why__', '')):
            del test.__unittest_skip__
    # Tests of groups are for 8 ranks or MPI. Their group is [1, 2], so they need 3 ranks. This gate
    # reads the variable when a test runs.
    os.environ['BACKEND'] = 'mpi' if RANKS > 2 else 'ringcomm'


def test_names():
    return [name for name in dir(Case) if name.startswith('test_')]


class Case(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    limit = 60.0  # seconds for one test
    text = ''  # what the ranks printed

    def setUp(self):
        super().setUp()
        distributed_test.INIT_METHOD = os.environ['INIT_METHOD']
        self._arrivals = mmap.mmap(-1, 4 * RANKS)
        self.output = os.path.join(os.environ['TEMP_DIR'], 'output')
        Case._current = self
        self._start_processes(torch.multiprocessing.get_context('fork').Process)

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.join()
        self.text = self._read_output()
        super().tearDown()
        os.path.exists(self.file_name) and os.remove(self.file_name)

    # ---- In a rank -------------------------------------------------------------------------------

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        descriptor = os.open(f'{cls._current.output}{rank}', os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout, sys.stderr = open(1, 'w', closefd=False), open(2, 'w', closefd=False)
        faulthandler.register(signal.SIGUSR1, sys.stderr)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        Case._place = rank
        super()._run(rank, test_name, file_name, pipe, **kwargs)

    def _barrier(self, wait_for=None, timeout=10):
        """torch's version polls files every 100 ms; this one uses shared memory."""
        arrivals, place = Case._current._arrivals, 4 * Case._place
        mine = struct.unpack_from('i', arrivals, place)[0] + 1
        struct.pack_into('i', arrivals, place, mine)
        deadline = time.monotonic() + timeout
        while sum(n >= mine for n in struct.unpack(f'{RANKS}i', arrivals[:])) < (wait_for or RANKS):
            if time.monotonic() > deadline:
                raise RuntimeError('barrier timeout')
            time.sleep(0.0005)

    # ---- In the parent ---------------------------------------------------------------------------

    def _join_processes(self, test):
        began = time.monotonic()
        deadline, hung = began + self.limit, True
        while time.monotonic() < deadline:
            running = [p.sentinel for p in self.processes if p.exitcode is None]
            if not running:
                hung = False
                break
            multiprocessing.connection.wait(running, deadline - time.monotonic())
            if any(p.exitcode == self.TEST_ERROR_EXIT_CODE or (p.exitcode or 0) < 0
                   for p in self.processes) and hung is True:
                deadline, hung = min(deadline, time.monotonic() + FAILED_GRACE), False
        if hung:
            self._stop_hung()
        for process in self.processes:
            process.kill()
            process.join()
        if hung:
            raise Hang(f'not complete after {self.limit:.0f} s')
        self._check_return_codes(test, time.monotonic() - began)
        self._check_alike()

    def _stop_hung(self):
        for process in self.processes:
            if process.exitcode is None:
                os.kill(process.pid, signal.SIGUSR1)  # prints its stack
        time.sleep(0.3)

    def _check_alike(self):
        """torch checks only rank 0."""
        found = [process.exitcode for process in self.processes]
        if found != found[:1] * RANKS:
            raise RuntimeError(f'exit statuses of the ranks differ: {found}')

    def _read_output(self):
        parts = []
        for rank in range(RANKS):
            try:
                with open(f'{self.output}{rank}', errors='replace') as f:
                    text = f.read().strip()
            except OSError:
                continue  # it had not begun
            if text:
                parts.append(f'-- output of rank {rank}\n{text}')
        return '\n'.join(parts)


class Hang(Exception):
    pass


common_distributed.logger.setLevel('ERROR')
