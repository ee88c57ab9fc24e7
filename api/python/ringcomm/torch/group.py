# SPDX-License-Identifier: BSD-3-Clause
"""How torch makes a process group of ringcomm, and the class of such groups.

The world meets through torch's store: rank 0 puts a unique id there. Later groups come from the
world by rcm_comm_subset, by their members alone. The class is a ProcessGroup, not a Backend: a
Backend that is written in Python exists from torch 2.14 on only.
"""
import hashlib
import multiprocessing.util
import sys
import time
import weakref

import torch
from torch.distributed import DistBackendError, ProcessGroup

from ringcomm import _core, logs
from ringcomm.errors import Error
from ringcomm.torch.operations import Operations
from ringcomm.torch.works import BackendError, milliseconds

ID_KEY = 'ringcomm/unique_id'
FAILED = b'failed: '

_live = weakref.WeakSet()  # groups whose communicator is open


class RingcommGroup(Operations, ProcessGroup):
    """A process group of torch over one communicator."""

    def __init__(self, comm, store, ranks):
        ProcessGroup.__init__(self, comm.rank, comm.size)
        self._comm, self._store, self._ranks = comm, store, ranks
        self._rank, self._size = comm.rank, comm.size
        self._name = self._description = ''
        _live.add(self)

    # Names that C++ asks for, and the same for Python.
    def getBackendName(self):
        return 'ringcomm'

    def name(self):
        return 'ringcomm'

    _get_backend_name = name

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    getRank, getSize = rank, size

    def getGroupName(self):
        return self._name

    def setGroupName(self, name):
        self._name = name
        if name and not self._comm.closed:
            self._comm.name = name[:63]

    def getGroupDesc(self):
        return self._description

    def setGroupDesc(self, description):
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self):
        return [torch.device('cpu')]

    def _get_backend(self, device):
        if torch.device(device).type != 'cpu':
            raise RuntimeError(f'ringcomm serves CPU tensors, not {device}')
        return self

    supports_coalescing = supports_splitting = supports_shrinking = False
    supports_time_estimate = False

    def get_group_store(self):
        return self._store

    def set_timeout(self, timeout):
        self._comm.timeout_ms = milliseconds(timeout) or -1

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return self._comm.sequence

    def _has_hooks(self):
        return False

    def _wait_for_pending_works(self):
        pass

    def abort(self):
        if not self._comm.closed:
            self._comm.abort('the program called abort')

    def shutdown(self):
        """Leaves: waits for no other rank."""
        _live.discard(self)
        try:
            self._comm.leave()
        except Error:
            pass  # operations had failed, and each has raised its own error


# ---- Making ------------------------------------------------------------------------------------------

def _refuse_mixed():
    """A Python ProcessGroup replaces the groups of other devices, silently. torch does not pass
    the whole string to a backend, so it is read from the caller."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != '_new_process_group_helper':
        frame = frame.f_back
    config = frame.f_locals.get('backend_config') if frame is not None else None
    names = set(config.get_device_backend_map().values()) if config is not None else set()
    if len(names) > 1:
        raise ValueError(f'backend "{config!r}": ringcomm beside another backend needs torch 2.14 or '
                         'later. Use backend="ringcomm" for CPU tensors, and a second group for '
                         'others.')


def _published_id(store, deadline):
    """The id of rank 0. Looks again and again: a wait inside torch's store ignores Ctrl-C."""
    pause = 0.0005
    while not store.check([ID_KEY]):
        if time.monotonic() > deadline:
            raise DistBackendError('ringcomm: timeout : rank 0 has not come to this process group')
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    published = store.get(ID_KEY)
    if published.startswith(FAILED):
        raise DistBackendError('ringcomm: rank 0 ' + published.decode(errors='replace'))
    return published


def _publish_id(store):
    try:
        unique_id = _core.unique_id()
    except Error as error:
        store.set(ID_KEY, FAILED + str(error).encode())
        raise
    store.set(ID_KEY, unique_id)
    return unique_id


def _new_world(store, rank, size, timeout_ms):
    deadline = time.monotonic() + timeout_ms / 1000
    unique_id = _publish_id(store) if rank == 0 else _published_id(store, deadline)
    return _core.Comm.init(rank=rank, size=size, unique_id=unique_id, timeout_ms=timeout_ms)


def _parent_of(ranks):
    """An open group that has all these ranks of the world, the largest: the same one on all."""
    fitting = [group for group in _live if not group._comm.closed and set(ranks) <= set(group._ranks)]
    return max(fitting, key=lambda group: group._size, default=None)


def create(options, _backend_options):
    """Called by torch for a new group, on its members."""
    _refuse_mixed()
    logs.follow()
    rank, size = options.group_rank, options.group_size
    ranks = list(options.global_ranks_in_group) or list(range(size))
    timeout_ms = milliseconds(options.timeout)
    parent = _parent_of(ranks) if options.global_ranks_in_group else None
    try:
        if parent is None:
            comm = _new_world(options.store, rank, size, timeout_ms)
        else:
            tag = int.from_bytes(hashlib.sha256(options.group_id.encode()).digest()[:8], 'little')
            comm = parent._comm.subset([parent._ranks.index(r) for r in ranks], tag, timeout_ms)
    except Error as error:
        raise BackendError(error) from None
    comm.timeout_ms = timeout_ms or -1
    _leave_at_exit()
    return RingcommGroup(comm, options.store, ranks)


# ---- The end of a process that did not destroy its groups -----------------------------------------------

def _leave_all():
    for group in list(_live):
        group.shutdown()


def _leave_at_exit(_done=[]):  # noqa: B006: remembers the process that registered
    """Children of multiprocessing end by os._exit, which runs none of the library's own end."""
    import os
    if _done != [os.getpid()]:
        _done[:] = [os.getpid()]
        multiprocessing.util.Finalize(None, _leave_all, exitpriority=0)
