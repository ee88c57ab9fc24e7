#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""failures_test.py CASE: failures as reported to a program, on two ranks."""
import array
import gc
import os
import signal
import sys
import time

import ringcomm

comm = ringcomm.init()
me = comm.rank


def expect(status, words, call):
    try:
        call()
    except ringcomm.Error as error:
        assert error.status == status, f'{error.status}: {error}'
        assert words in str(error), str(error)
        return error
    raise AssertionError(f'rank {me}: no {status}')


def death():
    """The survivor gets the dead rank's number and goes on alone."""
    comm.barrier()
    if me == 1:
        os._exit(0)
    error = expect('ERR_PEER', 'rank 1', lambda: comm.barrier())
    assert error.origin == 1
    rest = comm.shrink()
    assert rest.size == 1
    comm.leave()
    rest.destroy()


def mismatch():
    """The error on each rank contains both calls."""
    n = 3 + me
    error = expect('ERR_MISMATCH', 'all_reduce', lambda: comm.all_reduce(array.array('f', [0] * n)))
    assert '3' in str(error) and '4' in str(error), str(error)
    comm.leave()


class Interrupted(Exception):
    pass


def interrupted_within(seconds, call):
    def interrupt(*_):
        raise Interrupted
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    began = time.monotonic()
    try:
        call()
    except Interrupted:
        assert time.monotonic() - began < seconds, f'{time.monotonic() - began} s'
        return
    raise AssertionError('not interrupted')


def interrupt():
    """A signal handler's exception ends a receive, a wait and a collective at once. The receive then
    takes no message."""
    if me == 0:
        buffer = array.array('f', [0])
        interrupted_within(5, lambda: comm.recv(buffer, 1, 5))
        work = comm.recv(buffer, 1, 6, async_op=True)
        interrupted_within(5, work.wait)
        assert work.cancel()
        interrupted_within(5, lambda: comm.barrier())
        comm.send(array.array('f', [1]), 1, 1)
        comm.recv(buffer, 1, 5)
        assert buffer[0] == 5
    else:
        comm.recv(array.array('f', [0]), 0, 1)
        comm.barrier()  # the one that rank 0 had begun
        comm.send(array.array('f', [5]), 0, 5)
    comm.barrier()
    comm.leave()


def interrupt_creation():
    """The same for calls that create and destroy communicators. An interrupted creation fails on the
    other rank with this rank's number, and the parent goes on."""
    made = comm.duplicate()
    if me == 0:
        interrupted_within(5, lambda: comm.subset([0, 1], 7))
        interrupted_within(5, lambda: comm.duplicate())
        interrupted_within(5, made.destroy)
        comm.send(array.array('f', [1]), 1, 1)
    else:
        comm.recv(array.array('f', [0]), 0, 1)
        expect('ERR_CANCELED', 'rank 0', lambda: comm.subset([0, 1], 7))
        expect('ERR_CANCELED', 'rank 0', lambda: comm.duplicate())
        expect('ERR_CANCELED', 'rank 0', made.destroy)
    with comm.subset([0, 1], 7) as again:
        again.barrier()
    comm.destroy()


def excluded():
    """A hanging rank is excluded. The error of its next call contains the excluding call."""
    if me == 0:
        rest = comm.shrink(excluded=[1])
        assert (rest.rank, rest.size) == (0, 1)
        comm.leave()
        open_file = os.open(MARK, os.O_CREAT | os.O_WRONLY)
        os.close(open_file)
        while os.path.exists(MARK):  # until the other rank has the error
            time.sleep(0.01)
        rest.destroy()
    else:
        while not os.path.exists(MARK):
            time.sleep(0.01)
        try:
            expect('ERR_ABORTED', 'rcm_comm_shrink_excluding', lambda: comm.recv(bytearray(1), 0, 1))
            comm.leave()
        finally:
            os.remove(MARK)


def dropped():
    """Works dropped while unfinished keep their buffers until they are complete."""
    alive = []

    class Buffer(bytearray):
        def __del__(self):
            alive.remove(id(self))

    def begin():
        buffer = Buffer(1 << 20)
        alive.append(id(buffer))
        comm.recv(buffer, 1, 3, async_op=True)  # the work is dropped here

    if me == 0:
        for _ in range(5):
            begin()
        gc.collect()
        assert len(alive) == 5, 'a buffer was freed before its message came'
    comm.barrier()
    if me == 1:
        for _ in range(5):
            comm.send(bytearray(1 << 20), 0, 3)
    comm.barrier()
    until = time.monotonic() + 10
    while alive and time.monotonic() < until:
        single.barrier()  # any operation releases the buffers of complete works
        time.sleep(0.01)
    assert not alive, f'{len(alive)} buffers are still held'
    comm.destroy()


def deadline():
    """A timeout is ERR_TIMEOUT and names the missing rank."""
    if me == 0:
        expect('ERR_TIMEOUT', 'rank 1', lambda: comm.barrier(timeout=0.5))
    else:
        time.sleep(1.5)
    comm.leave()


case = sys.argv[1]
MARK = f'/tmp/ringcomm-excluded-{os.environ["MASTER_PORT"]}-{os.getppid()}'
single = comm.subset([me], tag=me) if case == 'dropped' else None
{'death': death, 'mismatch': mismatch, 'interrupt': interrupt, 'dropped': dropped,
 'deadline': deadline, 'interrupt_creation': interrupt_creation, 'excluded': excluded}[case]()
