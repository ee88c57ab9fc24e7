# SPDX-License-Identifier: BSD-3-Clause
"""Works of torch over works of ringcomm, and the threads that resolve futures."""
import functools
import threading
from datetime import timedelta

import torch
from torch.distributed import DistBackendError, ProcessGroup, Work as TorchWork

from ringcomm import _core
from ringcomm.errors import Error

NO_TIMEOUT = timedelta(0)


class BackendError(DistBackendError):
    """A failed operation: the library's error text, and its facts.

    status: 'ERR_PEER' and so on; origin: rank where the failure began, -1 unknown.
    """

    def __init__(self, error):
        super().__init__(_words(error))
        self.status, self.origin = error.status, error.origin


def _words(error):
    # Programs for torch search for " timeout " in texts of deadlines.
    return f'ringcomm: timeout : {error}' if error.status == 'ERR_TIMEOUT' else f'ringcomm: {error}'


@functools.lru_cache(maxsize=256)  # programs use few, and dividing takes 2 us
def milliseconds(timeout):
    """Milliseconds of a timedelta; 0: the communicator's deadline. torch's -1 ms means unset."""
    ms = int(timeout / timedelta(milliseconds=1)) if timeout is not None else 0
    return max(ms, 0)


# ---- Threads that resolve futures ------------------------------------------------------------------

class Resolvers:
    """Threads that take completed works. Before a thread runs callbacks of the program it makes
    sure that another one waits, so a callback may wait for any other future."""

    IDLE_MS = 1000

    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = 0

    def ensure(self):
        with self.lock:
            if self.waiting > 0:
                return
            self.waiting += 1
        threading.Thread(target=self.run, name='ringcomm-futures', daemon=True).start()

    def run(self):
        """Counts as waiting when it begins."""
        while True:
            resolve = _core.next_completion(self.IDLE_MS)
            if resolve is None:
                continue
            with self.lock:
                self.waiting -= 1
            self.ensure()
            resolve()
            with self.lock:
                if self.waiting >= 2:
                    return
                self.waiting += 1


resolvers = Resolvers()


# ---- Futures ---------------------------------------------------------------------------------------

def _in_backward():
    """Whether a backward pass runs in this thread: the Reducer of DistributedDataParallel, which is
    C++, may read the future."""
    return torch._C._current_graph_task_id() >= 0


def _readable_by_reducers(future):
    """A future that fails as those of C++ do. set_exception stores a value of Python, on which C++
    ends with a segmentation fault. What a callback raises becomes a RuntimeError of C++."""
    return future.then(lambda source: source.value())


# ---- Works -----------------------------------------------------------------------------------------

class RingWork(TorchWork):
    """One operation. `finish` runs once, in the thread that first finds it complete: it copies
    results of strided tensors back, and may raise."""

    def __init__(self, work, tensors, finish=None):
        super().__init__()
        self._work = work      # of _core; None: it was complete at once
        self._tensors = tensors
        self._finish = finish
        self._error = None
        self._future = None
        self._source = None    # what completes the future: itself, or its parent
        self._lock = threading.Lock() if finish else None

    def _settle(self):
        """After completion: runs finish once, and remembers what it raised."""
        if self._finish is None:
            return
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None and self._failure() is None:
                try:
                    finish(self)
                except Exception as error:  # noqa: BLE001: belongs to the waiter
                    self._error = error

    def _failure(self):
        if self._error is None and self._work is not None:
            error = self._work.error()
            self._error = BackendError(error) if error is not None else None
        return self._error

    def wait(self, timeout=NO_TIMEOUT):
        if self._work is not None:
            limit = milliseconds(timeout) or -1
            try:
                if not self._work.wait(limit):
                    raise DistBackendError(f'ringcomm: timeout : the operation is not complete after '
                                           f'{limit} ms')
            except Error as error:
                raise BackendError(error) from None
        self._settle()
        if self._future is not None:
            self._resolve()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self):
        return self._work is None or self._work.test()

    def is_success(self):
        if not self.is_completed():
            return False
        self._settle()
        return self._failure() is None

    def exception(self):
        return self._failure() if self.is_completed() else None

    def result(self):
        self.wait()
        return self._tensors

    def synchronize(self):
        self.wait()

    def boxed(self):
        return owner_of(self).boxed()

    def source_rank(self):
        return self._source_rank()

    def _source_rank(self):
        message = self._work.message() if self._work is not None else None
        if message is None:
            raise RuntimeError('source_rank: this work is not a complete receive')
        return message[0]

    def _resolve(self):
        """The future is complete when this returns: after a work's wait torch reads futures without
        waiting for them. Several threads may run this at once."""
        self._settle()
        failure = self._failure()
        try:
            if self._source.done():
                return
            if failure is not None:
                self._source.set_exception(failure)
            else:
                self._source.set_result(self._tensors)
        except RuntimeError:  # a future is completed once
            if not self._source.done():
                raise

    def get_future(self):
        if self._future is None:
            self._source = torch.futures.Future()
            self._future = _readable_by_reducers(self._source) if _in_backward() else self._source
            if self.is_completed():
                self._resolve()
            else:
                self._resolve_later()
        return self._future

    def _resolve_later(self):
        resolvers.ensure()
        self._work.on_complete(self._resolve)


class ManyWorks(RingWork):
    """Several works as one."""

    def __init__(self, works, tensors):
        super().__init__(None, tensors)
        self._works = works

    def wait(self, timeout=NO_TIMEOUT):
        for work in self._works:
            work.wait(timeout)
        if self._future is not None:
            self._resolve()
        return True

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def _failure(self):
        return next((e for e in (work._failure() for work in self._works) if e is not None), None)

    def _settle(self):
        for work in self._works:
            work._settle()

    def _resolve_later(self):
        left = [len(self._works)]
        lock = threading.Lock()

        def one_more(_):
            with lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                self._resolve()

        for work in self._works:
            work.get_future().add_done_callback(one_more)


# ---- Works that only C++ keeps -----------------------------------------------------------------------

class _Courier(ProcessGroup):
    """torch's C++ wraps what `barrier` of a Python group returns in a work that owns it."""

    def __init__(self, work):
        super().__init__(0, 1)
        self._work = work

    def barrier(self, opts=None):
        return self._work


def owner_of(work):
    """A work of C++ that owns this one. A reference from C++ to a work of Python keeps only the C++
    half: after the end of the Python half, its wait never returns."""
    return ProcessGroup.barrier(_Courier(work)) if isinstance(work, RingWork) else work
