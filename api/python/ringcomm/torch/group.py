# SPDX-License-Identifier: BSD-3-Clause
"""Creation of ringcomm process groups by torch, and the two classes of such groups.

The ranks of the world meet through torch's store: rank 0 stores a unique id there. Later groups are
made from the world by rcm_comm_subset, which only their members call. `ringcomm` alone makes a
ProcessGroup. A string that names devices makes a Backend, which can be written in Python since
torch 2.14.
"""
import hashlib
import multiprocessing.util
import sys
import time
import weakref

import torch
from torch.distributed import DistBackendError, ProcessGroup
from torch._C._distributed_c10d import Backend

from ringcomm import _core, logs
from ringcomm.errors import Error
from ringcomm.torch import data_parallel
from ringcomm.torch.eager import keep_eager
from ringcomm.torch.operations import Operations
from ringcomm.torch.works import BackendError, ManyWorks, RingWork, milliseconds

HAS_BACKENDS = torch.__version__ >= (2, 14)  # a Backend can be written in Python
ID_KEY = 'ringcomm/unique_id'
FAILED = b'failed: '

_live = weakref.WeakSet()  # groups whose communicator is open
_kept = set()  # backends until their shutdown: C++ keeps only its own half of the object


class Group(Operations):
    """Base of both classes of groups: one communicator."""

    def _open(self, comm, store, ranks, is_world, name):
        self._comm, self._store, self._ranks, self._is_world = comm, store, ranks, is_world
        self._rank, self._size = comm.rank, comm.size
        self._name = name
        comm.name = name[:63]

    # C++ looks these up by either name.
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

    supports_coalescing = supports_splitting = supports_shrinking = False
    supports_time_estimate = _supports_time_estimate = False

    def set_timeout(self, timeout):
        self._comm.timeout_ms = milliseconds(timeout) or -1

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self):
        pass

    def _get_sequence_number_for_group(self):
        return self._comm.sequence

    def _wait_for_pending_works(self):
        pass

    def abort(self):
        if not self._comm.closed:
            self._comm.abort('the program called abort')

    def shutdown(self):
        """Leaves, without waiting for other ranks."""
        _live.discard(self)
        _kept.discard(self)
        if self._comm.closed:
            return
        try:
            self._comm.leave()
        except Error:
            pass  # operations had failed, and each has raised its own error


class RingcommGroup(Group, ProcessGroup):
    """A process group of torch, of CPU tensors only."""

    def __init__(self, comm, store, ranks, is_world, name):
        ProcessGroup.__init__(self, comm.rank, comm.size)
        self._description = ''
        self._open(comm, store, ranks, is_world, name)
        self._backend = None
        if HAS_BACKENDS:  # torch's own C++ looks for the backend of a group
            kind = ProcessGroup.BackendType.CUSTOM
            self._backend = RingcommBackend(comm, store, ranks, is_world, name)
            self._register_backend(torch.device('cpu'), kind, self._backend)
            self._set_default_backend(kind)

    def shutdown(self):
        super().shutdown()
        _kept.discard(self._backend)

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

    def get_group_store(self):
        return self._store

    def _has_hooks(self):
        return False


class RingcommBackend(Group, Backend):
    """The backend for CPU tensors of a group that may have other backends for other devices. Of its
    works torch passes only wait and get_future on."""

    def __init__(self, comm, store, ranks, is_world, name):
        Backend.__init__(self, comm.rank, comm.size)
        self._open(comm, store, ranks, is_world, name)
        _kept.add(self)

    def _run(self, *arguments, **keywords):
        """torch needs a work of every operation."""
        work = super()._run(*arguments, **keywords)
        return work if work is not None else self._done([])

    def recv_anysource(self, tensors, tag=0):
        raise ValueError('recv: any source is not supported in a group of several backends, since '
                         'torch does not report the source there. Name src, or use a group of '
                         'backend="ringcomm".')

    supports_shrinking = True

    def shrink(self, ranks_to_exclude, shrink_flags=0, opts=None):
        """Called on the ranks that remain. The excluded ones may be dead, stuck or healthy."""
        remaining = [rank for r, rank in enumerate(self._ranks) if r not in ranks_to_exclude]
        excluded = [self._comm.world_rank(r) for r in ranks_to_exclude]
        try:
            comm = self._comm.shrink(0, excluded)
        except Error as error:
            raise BackendError(error) from None
        if comm.size != len(remaining):
            comm.leave()
            raise DistBackendError(f'ringcomm: shrink: {comm.size} ranks remain, not {len(remaining)}: '
                                   'others died meanwhile. Exclude them, too.')
        made = RingcommBackend(comm, self._store, remaining, False, self._name + '-shrunk')
        _live.add(made)
        return made

    def allreduce_sparse(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    def monitored_barrier(self, opts=None, wait_all_ranks=False):
        super().monitored_barrier(opts.timeout, wait_all_ranks)


keep_eager(Operations, Group, RingcommGroup, RingcommBackend, RingWork, ManyWorks)


# ---- Creation ----------------------------------------------------------------------------------------

def _names_devices():
    """Whether the program has named devices, as cpu:ringcomm,cuda:nccl. torch does not pass the
    string to a backend, so it is read from the caller."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != '_new_process_group_helper':
        frame = frame.f_back
    return frame is not None and ':' in str(frame.f_locals.get('backend') or '')


def _class_of_group():
    if not _names_devices():
        return RingcommGroup
    if HAS_BACKENDS:
        return RingcommBackend
    raise ValueError('ringcomm for one device of several, as in "cpu:ringcomm,cuda:nccl", needs torch '
                     '2.14 or later. Use backend="ringcomm" for CPU tensors, and a second group for '
                     'others.')


def _published_id(store, deadline):
    """The id of rank 0. Polls, because a wait inside torch's store ignores Ctrl-C."""
    pause = 0.0005
    while not store.check([ID_KEY]):
        if time.monotonic() > deadline:
            raise DistBackendError('ringcomm: timeout : rank 0 has not joined this process group')
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
    """An open group that has all these ranks, or None: the same one on all of them. A world comes
    before a group of its size, since programs keep it longest; names are equal on all members."""
    fitting = [group for group in _live if not group._comm.closed and set(ranks) <= set(group._ranks)]
    return max(fitting, key=lambda group: (group._size, group._is_world, group._name), default=None)


def create(options, _backend_options):
    """Called by torch for a new group, on its members."""
    kind = _class_of_group()
    logs.follow()
    data_parallel.adapt()
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
    group = kind(comm, options.store, ranks, parent is None, options.group_id)
    _live.add(group)
    return group


# ---- The end of a process that did not destroy its groups -----------------------------------------------

def _leave_all():
    for group in list(_live):
        group.shutdown()


def _leave_at_exit(_done=[]):  # noqa: B006: remembers the process that registered
    """Children of multiprocessing end by os._exit, which skips the library's own exit handler."""
    import os
    if _done != [os.getpid()]:
        _done[:] = [os.getpid()]
        multiprocessing.util.Finalize(None, _leave_all, exitpriority=0)
