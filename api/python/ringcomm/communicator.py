# SPDX-License-Identifier: BSD-3-Clause
"""Communicator: the operations of ringcomm.h on arrays.

An array is any C-contiguous CPU array with the buffer protocol (numpy, array, bytearray) or with
DLPack (torch, jax). Counts and types are read from the arrays; `recv=None` means in place.

Operations take two more keyword arguments:
  async_op  True returns a Work at once. It holds the arrays. Work.wait(timeout_ms) returns False if
            the time passed first, and raises the operation's error.
  timeout   deadline in seconds; None: the communicator's.
"""
from __future__ import annotations

import pickle
from typing import Any, Optional, Sequence

from ringcomm import _core
from ringcomm import errors as _errors  # sets the type of exceptions
from ringcomm import logs

Work = _core.Work
BROADCAST_BYTES, SCATTER_BYTES, GATHER_BYTES, ALL_GATHER_BYTES = range(4)
ANY_SOURCE = -1
ANY_TAG = 2**64 - 1


def _milliseconds(timeout: Optional[float]) -> int:
    """0 means the communicator's deadline."""
    if timeout is None:
        return 0
    return max(1, int(timeout * 1000))


def _op(op) -> int:
    number = op if isinstance(op, int) else _core.OPS.get(op)
    if number is None:
        raise ValueError(f'op {op!r} is none of {", ".join(_core.OPS)}')
    return number


def unique_id() -> bytes:
    """128 bytes by which ranks meet: one process makes them, every rank passes them to init()."""
    return _core.unique_id()


def init(rank: int = -1, size: int = 0, *, url: Optional[str] = None,
         unique_id: Optional[bytes] = None, timeout: Optional[float] = None,
         host_id: Optional[str] = None, secret: Optional[str] = None,
         transport: Optional[str] = None, algorithm: Optional[str] = None) -> 'Communicator':
    """The communicator of all ranks. Collective. What is not given comes from the environment."""
    logs.follow()
    return Communicator(_core.Comm.init(
        rank=rank, size=size, url=url, unique_id=unique_id, timeout_ms=_milliseconds(timeout),
        host_id=host_id, secret=secret, transport=transport, algorithm=algorithm))


class Communicator:
    """A set of ranks and its operations. As a context manager it is destroyed at the end; after an
    exception it is left instead, which waits for nobody."""

    def __init__(self, core: '_core.Comm'):
        self.core = core

    def __enter__(self) -> 'Communicator':
        return self

    def __exit__(self, kind, value, trace) -> None:
        if kind is None:
            self.destroy()
            return
        try:
            self.core.leave()
        except _errors.Error:
            pass  # the exception being raised has more facts

    def __repr__(self) -> str:
        if self.core.closed:
            return '<ringcomm.Communicator, destroyed>'
        return f'<ringcomm.Communicator "{self.core.name}", rank {self.rank} of {self.size}>'

    @property
    def rank(self) -> int:
        return self.core.rank

    @property
    def size(self) -> int:
        return self.core.size

    @property
    def local_rank(self) -> int:
        return self.core.local_rank

    @property
    def local_size(self) -> int:
        return self.core.local_size

    @property
    def timeout(self) -> Optional[float]:
        """Deadline of operations in seconds; None: no deadline."""
        ms = self.core.timeout_ms
        return None if ms < 0 else ms / 1000

    @timeout.setter
    def timeout(self, seconds: Optional[float]) -> None:
        self.core.timeout_ms = -1 if seconds is None else _milliseconds(seconds)

    # ---- Collectives -------------------------------------------------------------------------

    def all_reduce(self, send, recv=None, op='sum', *, async_op=False, timeout=None):
        """recv of every rank = send of all ranks combined by op."""
        return _core.all_reduce(self.core, send, send if recv is None else recv, None, None,
                                _op(op), None, async_op, _milliseconds(timeout))

    def broadcast(self, array, root: int = 0, *, async_op=False, timeout=None):
        """array of every rank = array of the root."""
        return _core.broadcast(self.core, array, None, None, root, None, async_op,
                               _milliseconds(timeout))

    def barrier(self, *, async_op=False, timeout=None):
        """Returns on no rank before every rank has called it."""
        return _core.barrier(self.core, None, async_op, _milliseconds(timeout))

    def reduce(self, send, recv=None, op='sum', root: int = 0, *, async_op=False, timeout=None):
        """recv of the root = send of all ranks combined by op. Without recv: in send of the root."""
        if recv is None and self.rank == root:
            recv = send
        return _core.reduce(self.core, send, recv, None, None, _op(op), root, None, async_op,
                            _milliseconds(timeout))

    def scatter(self, send, recv, root: int = 0, *, async_op=False, timeout=None):
        """recv of rank r = block r of the root's send (size times recv). Others pass send=None."""
        return _core.scatter(self.core, send, recv, None, None, root, None, async_op,
                             _milliseconds(timeout))

    def gather(self, send, recv=None, root: int = 0, *, async_op=False, timeout=None):
        """Block r of the root's recv (size times send) = send of rank r."""
        return _core.gather(self.core, send, recv, None, None, root, None, async_op,
                            _milliseconds(timeout))

    def all_gather(self, send, recv, *, async_op=False, timeout=None):
        """Block r of recv (size times send) = send of rank r, on every rank."""
        return _core.all_gather(self.core, send, recv, None, None, None, async_op,
                                _milliseconds(timeout))

    def reduce_scatter(self, send, recv, op='sum', *, async_op=False, timeout=None):
        """recv of rank r = block r of send (size times recv) of all ranks combined by op."""
        return _core.reduce_scatter(self.core, send, recv, None, None, _op(op), None, async_op,
                                    _milliseconds(timeout))

    def all_to_all(self, send, recv, *, async_op=False, timeout=None):
        """Block r of recv = the block of rank r's send with this rank's number."""
        return _core.all_to_all(self.core, send, recv, None, None, None, async_op,
                                _milliseconds(timeout))

    def scan(self, send, recv, op='sum', *, async_op=False, timeout=None):
        """recv of rank r = send of ranks 0..r combined by op, in rank order."""
        return _core.scan(self.core, send, recv, None, None, _op(op), None, async_op,
                          _milliseconds(timeout))

    def exscan(self, send, recv, op='sum', *, async_op=False, timeout=None):
        """recv of rank r = send of ranks 0..r-1 combined by op; rank 0's recv is not touched."""
        return _core.exscan(self.core, send, recv, None, None, _op(op), None, async_op,
                            _milliseconds(timeout))

    def scatter_v(self, send, send_counts, recv, root: int = 0, *, send_displs=None,
                  async_op=False, timeout=None):
        """scatter with a count per rank, in elements (send, send_counts: the root's)."""
        return _core.scatter_v(self.core, send, send_counts, send_displs, recv, None, None, root,
                               None, async_op, _milliseconds(timeout))

    def gather_v(self, send, recv, recv_counts, root: int = 0, *, recv_displs=None,
                 async_op=False, timeout=None):
        """gather with a count per rank, in elements (recv, recv_counts: the root's)."""
        return _core.gather_v(self.core, send, None, recv, recv_counts, recv_displs, None, root,
                              None, async_op, _milliseconds(timeout))

    def all_gather_v(self, send, recv, recv_counts, *, recv_displs=None, async_op=False,
                     timeout=None):
        """all_gather with a count per rank, in elements, equal on every rank."""
        return _core.all_gather_v(self.core, send, None, recv, recv_counts, recv_displs, None,
                                  None, async_op, _milliseconds(timeout))

    def reduce_scatter_v(self, send, send_counts, recv, op='sum', *, send_displs=None,
                         async_op=False, timeout=None):
        """reduce_scatter with a count per rank, in elements, equal on every rank."""
        return _core.reduce_scatter_v(self.core, send, send_counts, send_displs, recv, None, None,
                                      _op(op), None, async_op, _milliseconds(timeout))

    def all_to_all_v(self, send, send_counts, recv, recv_counts, *, send_displs=None,
                     recv_displs=None, async_op=False, timeout=None):
        """all_to_all with a count per pair of ranks, in elements."""
        return _core.all_to_all_v(self.core, send, send_counts, send_displs, recv, recv_counts,
                                  recv_displs, None, None, async_op, _milliseconds(timeout))

    # ---- Point to point -----------------------------------------------------------------------

    def send(self, array, dst: int, tag: int = 0, *, async_op=False, timeout=None):
        """Sends array to rank dst. Complete when array may be reused."""
        return _core.send(self.core, array, None, None, dst, tag, None, async_op,
                          _milliseconds(timeout))

    def ssend(self, array, dst: int, tag: int = 0, *, async_op=False, timeout=None):
        """The same, but complete only when the receiver has posted the matching receive."""
        return _core.ssend(self.core, array, None, None, dst, tag, None, async_op,
                           _milliseconds(timeout))

    def recv(self, array, src: int = ANY_SOURCE, tag: int = ANY_TAG, *, async_op=False,
             timeout=None):
        """Receives into array; returns (source, tag, bytes). Async: Work.message() has these."""
        return _core.recv(self.core, array, None, None, src, tag, None, async_op,
                          _milliseconds(timeout))

    def sendrecv(self, send, dst: int, recv, src: int, *, send_tag: int = 0,
                 recv_tag: int = ANY_TAG, async_op=False, timeout=None):
        """Sends and receives at the same time; neither waits for the other."""
        return _core.sendrecv(self.core, send, None, dst, send_tag, recv, None, src, recv_tag,
                              None, None, async_op, _milliseconds(timeout))

    def iprobe(self, src: int = ANY_SOURCE, tag: int = ANY_TAG):
        """Returns (source, tag, bytes) of an arrived message, or None."""
        return self.core.iprobe(src, tag)

    # ---- Objects ------------------------------------------------------------------------------

    def broadcast_object(self, value: Any = None, root: int = 0, *, timeout=None) -> Any:
        """The root's value, pickled, on every rank. Unpickling executes code of the sender."""
        mine = pickle.dumps(value, -1) if self.rank == root else None
        blocks = _core.bytes_call(BROADCAST_BYTES, self.core, mine, root, _milliseconds(timeout))
        return value if self.rank == root else pickle.loads(blocks[0])

    def all_gather_objects(self, value: Any, *, timeout=None) -> list:
        """[value of rank 0, ...] on every rank."""
        blocks = _core.bytes_call(ALL_GATHER_BYTES, self.core, pickle.dumps(value, -1), 0,
                                  _milliseconds(timeout))
        return [pickle.loads(block) for block in blocks]

    def gather_objects(self, value: Any, root: int = 0, *, timeout=None) -> Optional[list]:
        """[value of rank 0, ...] on the root, None elsewhere."""
        blocks = _core.bytes_call(GATHER_BYTES, self.core, pickle.dumps(value, -1), root,
                                  _milliseconds(timeout))
        return None if blocks is None else [pickle.loads(block) for block in blocks]

    def scatter_objects(self, values: Optional[Sequence] = None, root: int = 0, *,
                        timeout=None) -> Any:
        """values[r] of the root on rank r."""
        mine = [pickle.dumps(value, -1) for value in values] if self.rank == root else None
        blocks = _core.bytes_call(SCATTER_BYTES, self.core, mine, root, _milliseconds(timeout))
        return pickle.loads(blocks[0])

    # ---- Groups and the end -------------------------------------------------------------------

    def subset(self, ranks: Sequence[int], tag: int = 0, *, timeout=None) -> 'Communicator':
        """A communicator of these ranks; only they need to call (rcm_comm_subset)."""
        return Communicator(self.core.subset(list(ranks), tag, _milliseconds(timeout)))

    def split(self, colour: int, key: int = 0, *, timeout=None) -> 'Communicator':
        """A communicator of the ranks of equal colour, in the order of keys."""
        return Communicator(self.core.split(colour, key, _milliseconds(timeout)))

    def split_hosts(self, *, timeout=None) -> 'Communicator':
        """A communicator of the ranks of this host."""
        return Communicator(self.core.split_hosts(_milliseconds(timeout)))

    def duplicate(self, *, timeout=None) -> 'Communicator':
        """A communicator of all ranks, with its own order and errors."""
        return Communicator(self.core.duplicate(_milliseconds(timeout)))

    def shrink(self, *, excluded: Sequence[int] = (), timeout=None) -> 'Communicator':
        """A communicator of the remaining ranks after a failure. excluded: world ranks to exclude
        although they live, the same on all callers; they do not call it."""
        return Communicator(self.core.shrink(_milliseconds(timeout), list(excluded)))

    def abort(self, reason: Optional[str] = None) -> None:
        """Ends all operations on all ranks, without waiting."""
        self.core.abort(reason)

    def set_spin(self, us: int) -> None:
        """Sets how many microseconds a waiting call spins before its thread sleeps; -1 is
        RINGCOMM_SPIN_US. This rank only; later groups of this communicator inherit it."""
        self.core.set_spin(us)

    def leave(self) -> None:
        """Ends the communicator for this rank alone, without waiting. A failure that operations have
        already raised is not raised again."""
        failed = not self.core.closed and self.core.error() is not None
        try:
            self.core.leave()
        except _errors.Error:
            if not failed:
                raise

    def destroy(self) -> None:
        """Ends the communicator. Collective."""
        self.core.destroy()
