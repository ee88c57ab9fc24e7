# SPDX-License-Identifier: BSD-3-Clause
"""Every operation of torch.distributed on CPU tensors, over ringcomm._core.

Tensors pass by address. A strided tensor is copied: its values travel in the order of its elements,
and results are copied back when the operation is complete. Point to point refuses strided tensors,
as every backend does.
"""
from datetime import timedelta

import torch
from torch.distributed import ReduceOp

from ringcomm import _core
from ringcomm.errors import Error
from ringcomm.torch.works import BackendError, ManyWorks, RingWork, milliseconds

BLOCKING, ASYNC, EAGER = 0, 1, 2
ANY_SOURCE = -1
SEND, RECV = 1, 3  # enum rcm_transfer_kind


def _numbers(names):
    return {getattr(torch, mine): _core.DTYPES[name][0] for mine, name in names.items()
            if hasattr(torch, mine)}


DTYPES = _numbers({
    'uint8': 'uint8', 'int8': 'int8', 'int16': 'int16', 'uint16': 'uint16', 'int32': 'int32',
    'uint32': 'uint32', 'int64': 'int64', 'uint64': 'uint64', 'float16': 'float16',
    'bfloat16': 'bfloat16', 'float32': 'float32', 'float64': 'float64', 'bool': 'bool',
    'complex64': 'complex64', 'complex128': 'complex128', 'float8_e4m3fn': 'float8_e4m3fn',
    'float8_e5m2': 'float8_e5m2'})
UINT8 = DTYPES[torch.uint8]
# By number: torch's operators are slow to hash.
OPS = {ReduceOp.RedOpType.SUM: _core.OPS['sum'], ReduceOp.RedOpType.PRODUCT: _core.OPS['prod'],
       ReduceOp.RedOpType.MIN: _core.OPS['min'], ReduceOp.RedOpType.MAX: _core.OPS['max'],
       ReduceOp.RedOpType.BAND: _core.OPS['band'], ReduceOp.RedOpType.BOR: _core.OPS['bor'],
       ReduceOp.RedOpType.BXOR: _core.OPS['bxor'], ReduceOp.RedOpType.AVG: _core.OPS['avg']}
OPS = {int(kind): number for kind, number in OPS.items()}
PREMUL_SUM = int(ReduceOp.RedOpType.PREMUL_SUM)
COLLECTIVES = _core.COLLECTIVES


# ---- Arguments ------------------------------------------------------------------------------------

def _check(tensor):
    if not tensor.is_cpu:
        raise ValueError(f'ringcomm serves CPU tensors; this one is on {tensor.device}')
    if tensor.layout != torch.strided:
        raise ValueError(f'ringcomm has no such operation for a tensor of layout {tensor.layout}')


def _plain(tensor):
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _dtype(tensor):
    """For a call that reduces: the type must be one of ringcomm's."""
    number = DTYPES.get(tensor.dtype)
    if number is None:
        raise ValueError(f'ringcomm cannot reduce tensors of {tensor.dtype}')
    return number


def _moved(tensor, count):
    """(count, type) for a call that only moves data: other types are moved as bytes."""
    number = DTYPES.get(tensor.dtype)
    return (count, number) if number is not None else (count * tensor.element_size(), UINT8)


class Staging:
    """Contiguous copies of strided tensors, copied back later."""

    def __init__(self):
        self.back = []

    def read(self, tensor):
        _check(tensor)
        return tensor if _plain(tensor) else tensor.resolve_conj().resolve_neg().contiguous()

    def write(self, tensor, fill=False):
        """fill: copies the present values too."""
        _check(tensor)
        if _plain(tensor):
            return tensor
        copy = self.read(tensor) if fill else torch.empty(tensor.shape, dtype=tensor.dtype)
        self.back.append((tensor, copy))
        return copy

    def finish(self):
        if not self.back:
            return None
        back = self.back

        def copy_back(_work):
            with torch.no_grad():
                for tensor, copy in back:
                    tensor.copy_(copy)
        return copy_back


def _is_async(opts):
    return opts is None or opts.asyncOp


def _timeout(opts):
    return milliseconds(opts.timeout) if opts is not None else 0


def _one(tensors, name):
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f'{name}: one tensor is expected, not {len(tensors)}')
    return tensors[0]


def _same(tensors, first, name):
    for tensor in tensors:
        if tensor.dtype != first.dtype:
            raise ValueError(f'{name}: tensors of {tensor.dtype} and {first.dtype} in one call')


def _fits(elements, tensor, name):
    if tensor.numel() != elements:
        raise ValueError(f'{name}: a tensor has {tensor.numel()} elements, not {elements}')


class _Op:
    """The number of a torch operator. premul_sum is made for the call and freed after it."""

    def __init__(self, reduce_op, dtype):
        kind = int(getattr(reduce_op, 'op', reduce_op))
        self.number = OPS.get(kind)
        self.made = None
        if kind == PREMUL_SUM:
            scale = reduce_op.__getstate__()[1]
            self.number = self.made = _core.premul_sum(float(scale), dtype)
        if self.number is None:
            raise ValueError(f'ringcomm has no operator {reduce_op}')

    def __enter__(self):
        return self.number

    def __exit__(self, *_):
        if self.made is not None:
            _core.op_free(self.made)


class Operations:
    """A mixin: needs self._comm (of _core), self._rank, self._size."""

    # ---- Running ---------------------------------------------------------------------------------

    def _run(self, function, arguments, keep, is_async, timeout_ms, results, finish=None):
        """Returns None when a blocking operation is complete, else a work."""
        try:
            made = function(self._comm, *arguments, keep, ASYNC if is_async else BLOCKING,
                            timeout_ms)
        except Error as error:
            raise BackendError(error) from None
        if is_async:
            return RingWork(made, results, finish)
        if finish is not None:
            finish(None)
        return None

    def _done(self, results):
        return RingWork(None, results)

    # ---- Reductions --------------------------------------------------------------------------------

    def allreduce(self, tensors, opts=None, timeout=None):
        tensor = _one(tensors, 'allreduce')
        if tensor.layout == torch.sparse_coo:
            return self._sparse_all_reduce(tensor, opts)
        opts, reduce_op = _split_op(opts)
        staging = Staging()
        buffer = staging.write(tensor, fill=True)
        dtype = _dtype(tensor)
        with _Op(reduce_op, dtype) as op:
            address = buffer.data_ptr()
            return self._run(_core.all_reduce, (address, address, buffer.numel(), dtype, op),
                             (buffer, tensor), _is_async(opts), _timeout(opts), [tensor],
                             staging.finish())

    def allreduce_coalesced(self, tensors, opts=None):
        opts, reduce_op = _split_op(opts)
        if not tensors:
            return self._done([])
        staging = Staging()
        buffers = [staging.write(tensor, fill=True) for tensor in tensors]
        _same(tensors, tensors[0], 'allreduce_coalesced')
        dtype = _dtype(tensors[0])
        parts = [(b.data_ptr(), b.data_ptr(), b.numel(), dtype) for b in buffers]
        with _Op(reduce_op, dtype) as op:
            return self._run(_core.coalesced, (COLLECTIVES['all_reduce'], parts, op, 0),
                             (buffers, tensors), _is_async(opts), _timeout(opts), list(tensors),
                             staging.finish())

    def reduce(self, tensors, opts=None, *more):
        tensor = _one(tensors, 'reduce')
        root = opts.rootRank
        staging = Staging()
        mine = self._rank == root
        buffer = staging.write(tensor, fill=True) if mine else staging.read(tensor)
        dtype = _dtype(tensor)
        address = buffer.data_ptr()
        with _Op(opts.reduceOp, dtype) as op:
            return self._run(_core.reduce, (address, address if mine else None, buffer.numel(),
                                            dtype, op, root),
                             (buffer, tensor), _is_async(opts), _timeout(opts), [tensor],
                             staging.finish())

    def reduce_scatter(self, outputs, inputs, opts=None, timeout=None):
        output = _one(outputs, 'reduce_scatter')
        blocks = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        opts, reduce_op = _split_op(opts)
        self._check_length(blocks, 'reduce_scatter: input list')
        _same(blocks, output, 'reduce_scatter')
        _fits(blocks[self._rank].numel(), output, 'reduce_scatter: output')
        staging = Staging()
        recv = staging.write(output)
        sends = [staging.read(block) for block in blocks]
        dtype = _dtype(output)
        with _Op(reduce_op, dtype) as op:
            return self._run(_core.reduce_scatter_list,
                             ([s.data_ptr() for s in sends], [s.numel() for s in sends],
                              recv.data_ptr(), recv.numel(), dtype, op),
                             (sends, recv), _is_async(opts), _timeout(opts), [output],
                             staging.finish())

    def reduce_scatter_single(self, output, tensor, opts=None):
        opts, reduce_op = _split_op(opts)
        _same([output], tensor, 'reduce_scatter')
        _fits(output.numel() * self._size, tensor, 'reduce_scatter: input')
        staging = Staging()
        send, recv = staging.read(tensor), staging.write(output)
        dtype = _dtype(tensor)
        with _Op(reduce_op, dtype) as op:
            return self._run(_core.reduce_scatter,
                             (send.data_ptr(), recv.data_ptr(), recv.numel(), dtype, op),
                             (send, recv), _is_async(opts), _timeout(opts), [output],
                             staging.finish())

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        opts, reduce_op = _split_op(opts)
        return self._each(self.reduce_scatter_single, zip(outputs, inputs), outputs, reduce_op)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _each(self, operation, pairs, results, reduce_op=None):
        """One work for several calls. For collectives that torch coalesces and ringcomm does not."""
        arguments = () if reduce_op is None else (reduce_op,)
        works = [operation(output, tensor, *arguments) for output, tensor in pairs]
        return ManyWorks(works, list(results))

    # ---- Moving ---------------------------------------------------------------------------------------

    def broadcast(self, tensors, opts=None, timeout=None):
        tensor = _one(tensors, 'broadcast')
        root, opts = (opts, None) if isinstance(opts, int) else (opts.rootRank, opts)
        staging = Staging()
        mine = self._rank == root
        buffer = staging.read(tensor) if mine else staging.write(tensor)
        count, dtype = _moved(tensor, buffer.numel())
        return self._run(_core.broadcast, (buffer.data_ptr(), count, dtype, root), (buffer, tensor),
                         _is_async(opts), _timeout(opts), [tensor], staging.finish())

    def allgather(self, outputs, inputs, opts=None):
        tensor = _one(inputs, 'allgather')
        blocks = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        self._check_length(blocks, 'allgather: output list')
        _same(blocks, tensor, 'allgather')
        _fits(blocks[self._rank].numel(), tensor, 'allgather: input')
        staging = Staging()
        send = staging.read(tensor)
        recvs = [staging.write(block) for block in blocks]
        counts = [_moved(recv, recv.numel())[0] for recv in recvs]
        count, dtype = _moved(tensor, send.numel())
        return self._run(_core.all_gather_list,
                         (send.data_ptr(), count, [r.data_ptr() for r in recvs], counts, dtype),
                         (send, recvs), _is_async(opts), _timeout(opts), blocks, staging.finish())

    def all_gather_single(self, output, tensor, opts=None):
        _same([output], tensor, 'all_gather')
        _fits(tensor.numel() * self._size, output, 'all_gather: output')
        staging = Staging()
        send, recv = staging.read(tensor), staging.write(output)
        count, dtype = _moved(tensor, send.numel())
        return self._run(_core.all_gather, (send.data_ptr(), recv.data_ptr(), count, dtype),
                         (send, recv), _is_async(opts), _timeout(opts), [output], staging.finish())

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return self._each(self.all_gather_single, zip(outputs, inputs), outputs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        # output_lists[rank][i] receives inputs[i] of that rank.
        lists = [[blocks[i] for blocks in output_lists] for i in range(len(inputs))]
        pairs = [([blocks], [tensor]) for blocks, tensor in zip(lists, inputs)]
        return self._each(self.allgather, pairs, output_lists)

    def gather(self, outputs, inputs, opts=None, *more):
        tensor = _one(inputs, 'gather')
        root = opts.rootRank
        staging = Staging()
        send = staging.read(tensor)
        recvs, blocks = None, []
        if self._rank == root:
            blocks = outputs[0]
            self._check_length(blocks, 'gather: output list')
            _same(blocks, tensor, 'gather')
            for block in blocks:
                _fits(tensor.numel(), block, 'gather: output')
            recvs = [staging.write(block) for block in blocks]
        count, dtype = _moved(tensor, send.numel())
        arguments = (send.data_ptr(), count, recvs and [r.data_ptr() for r in recvs],
                     recvs and [count] * self._size, dtype, root)
        return self._run(_core.gather_list, arguments, (send, recvs), _is_async(opts),
                         _timeout(opts), blocks, staging.finish())

    def scatter(self, outputs, inputs, opts=None, *more):
        output = _one(outputs, 'scatter')
        root = opts.rootRank
        staging = Staging()
        recv = staging.write(output)
        count, dtype = _moved(output, recv.numel())
        sends = None
        if self._rank == root:
            self._check_length(inputs[0], 'scatter: input list')
            _same(inputs[0], output, 'scatter')
            for block in inputs[0]:
                _fits(output.numel(), block, 'scatter: input')
            sends = [staging.read(block) for block in inputs[0]]
        arguments = (sends and [s.data_ptr() for s in sends], sends and [count] * self._size,
                     recv.data_ptr(), count, dtype, root)
        return self._run(_core.scatter_list, arguments, (recv, sends), _is_async(opts),
                         _timeout(opts), [output], staging.finish())

    def alltoall(self, outputs, inputs, opts=None):
        self._check_length(outputs, 'alltoall: output list')
        self._check_length(inputs, 'alltoall: input list')
        _same(list(outputs) + list(inputs), inputs[0], 'alltoall')
        staging = Staging()
        sends = [staging.read(tensor) for tensor in inputs]
        recvs = [staging.write(tensor) for tensor in outputs]
        dtype = _moved(inputs[0], 0)[1]
        arguments = ([s.data_ptr() for s in sends], [_moved(s, s.numel())[0] for s in sends],
                     [r.data_ptr() for r in recvs], [_moved(r, r.numel())[0] for r in recvs], dtype)
        return self._run(_core.all_to_all_list, arguments, (sends, recvs), _is_async(opts),
                         _timeout(opts), list(outputs), staging.finish())

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        _same([output], tensor, 'all_to_all_single')
        staging = Staging()
        send, recv = staging.read(tensor), staging.write(output)
        dtype = _moved(tensor, 0)[1]
        if not output_splits and not input_splits:
            _fits(send.numel(), recv, 'all_to_all_single: output')
            self._check_rows(send, 'input')
            count = _moved(tensor, send.numel() // self._size)[0]
            return self._run(_core.all_to_all, (send.data_ptr(), recv.data_ptr(), count, dtype),
                             (send, recv), _is_async(opts), _timeout(opts), [output],
                             staging.finish())
        arguments = (send.data_ptr(), self._splits(tensor, input_splits, 'input'), None,
                     recv.data_ptr(), self._splits(output, output_splits, 'output'), None, dtype)
        return self._run(_core.all_to_all_v, arguments, (send, recv), _is_async(opts),
                         _timeout(opts), [output], staging.finish())

    alltoall_base = all_to_all_single

    def _check_rows(self, tensor, name):
        rows = tensor.size(0) if tensor.dim() else 0
        if tensor.numel() and rows % self._size != 0:
            raise ValueError(f'all_to_all_single: the {name} has {rows} rows, which {self._size} '
                             'ranks do not divide')

    def _splits(self, tensor, splits, name):
        """Counts in elements of splits in rows."""
        rows = tensor.size(0) if tensor.dim() else 0
        if not splits:
            self._check_rows(tensor, name)
            splits = [rows // self._size] * self._size
        self._check_length(splits, f'all_to_all_single: {name} splits')
        if sum(splits) != rows:
            raise ValueError(f'all_to_all_single: {name} splits add up to {sum(splits)}, the tensor '
                             f'has {rows} rows')
        row = _moved(tensor, tensor.numel() // rows)[0] if rows else 0
        return [n * row for n in splits]

    def _check_length(self, items, name):
        if len(items) != self._size:
            raise ValueError(f'{name} has {len(items)} entries, the group {self._size} ranks')

    # ---- Point to point --------------------------------------------------------------------------------

    def _message(self, tensors, name):
        tensor = _one(tensors, name)
        _check(tensor)
        if not _plain(tensor):
            raise ValueError(f'{name}: the tensor must be contiguous')
        return tensor, *_moved(tensor, tensor.numel())

    def _transfer(self, function, tensor, arguments, finish=None):
        try:
            work = function(self._comm, *arguments, tensor, ASYNC if finish else EAGER, 0)
        except Error as error:
            raise BackendError(error) from None
        return RingWork(work, [tensor], finish)

    def send(self, tensors, dst, tag=0):
        tensor, count, dtype = self._message(tensors, 'send')
        return self._transfer(_core.send, tensor, (tensor.data_ptr(), count, dtype, dst, tag))

    def recv(self, tensors, src, tag=0):
        tensor, count, dtype = self._message(tensors, 'recv')
        expected = tensor.numel() * tensor.element_size()

        def check(work):
            source, _, came = work._work.message()
            if came != expected:
                raise RuntimeError(f'recv: rank {source} sent {came} bytes, the tensor has '
                                   f'{expected}')
        return self._transfer(_core.recv, tensor, (tensor.data_ptr(), count, dtype, src, tag),
                              check)

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, ANY_SOURCE, tag)

    # ---- Barriers ----------------------------------------------------------------------------------------

    def barrier(self, opts=None, timeout=None):
        if isinstance(opts, timedelta):
            opts, timeout = None, opts
        limit = milliseconds(timeout) if timeout is not None else _timeout(opts)
        return self._run(_core.barrier, (), None, _is_async(opts), limit, [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        limit = milliseconds(timeout)
        if timeout == timedelta(0):
            raise RuntimeError(f'Rank {self._rank} timed out in monitoredBarrier: timeout is 0')
        try:
            _core.monitored_barrier(self._comm, 0 if wait_all_ranks else 1, None, BLOCKING, limit)
        except Error as error:
            raise self._barrier_error(error) from None

    def _barrier_error(self, error):
        missing = self._comm.missing()
        failed = BackendError(error)
        if missing:
            names = ', '.join(str(rank) for rank in missing)
            word = 'Ranks' if len(missing) > 1 else 'Rank'
            text = f'{word} {names} failed to pass monitoredBarrier in {error}'
            if self._rank != 0:  # programs for torch search for these words
                text = (f'Rank {self._rank} successfully reached monitoredBarrier, but received errors '
                        f'while waiting for send/recv from rank 0: {text}')
            failed.args = (text,)
        return failed

    # ---- Sparse -------------------------------------------------------------------------------------------

    def _sparse_all_reduce(self, tensor, opts):
        """Gathers indices and values of all ranks, and adds them up here. It blocks."""
        if opts is not None and getattr(opts.reduceOp, 'op', opts.reduceOp) != ReduceOp.RedOpType.SUM:
            raise RuntimeError('ringcomm: sparse all_reduce has the operator SUM only')
        mine = tensor.coalesce()
        facts = torch.tensor([mine._nnz()], dtype=torch.int64)
        numbers = [torch.zeros_like(facts) for _ in range(self._size)]
        self.allgather([numbers], [facts]).wait()
        indices = [mine.indices().new_empty((mine.sparse_dim(), int(n))) for n in numbers]
        values = [mine.values().new_empty((int(n), *mine.values().shape[1:])) for n in numbers]
        self.allgather([indices], [mine.indices().contiguous()]).wait()
        self.allgather([values], [mine.values().contiguous()]).wait()
        total = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), mine.shape).coalesce()
        with torch.no_grad():
            tensor.sparse_resize_(total.shape, total.sparse_dim(), total.dense_dim())
            tensor.copy_(total)
        return self._done([tensor])


def _split_op(opts):
    """(options or None, operator) of an argument that is options, an operator, or None."""
    if opts is None:
        return None, ReduceOp.SUM
    reduce_op = getattr(opts, 'reduceOp', None)
    return (None, opts) if reduce_op is None else (opts, reduce_op)
