#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the backend of torch.distributed with gloo, in one world with both: every operation, type and
operator that gloo supports has gloo's results. Where gloo lacks something or is wrong, the expected results are
computed here."""
import datetime
import threading
import warnings

warnings.simplefilter('ignore')
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from ringcomm.torch import autoload, object_collectives  # noqa: E402

autoload.register()
dist.init_process_group('ringcomm', timeout=datetime.timedelta(seconds=60))
me, size = dist.get_rank(), dist.get_world_size()
ours, gloo = dist.group.WORLD, dist.new_group(backend='gloo')
assert (dist.get_backend(ours), dist.get_backend(gloo)) == ('ringcomm', 'gloo')
BY_GLOO = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
           torch.float32, torch.float64]
MORE = [torch.int16, torch.uint16, torch.uint32, torch.uint64]
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]


def values(dtype, n=5, rank=None):
    rank = me if rank is None else rank
    return torch.tensor([(i + rank) % 4 + 1 for i in range(n)]).to(dtype)


def on_both(operation):
    """operation(group) returns tensors, which must be equal for both groups."""
    for found, expected in zip(operation(ours), operation(gloo)):
        assert torch.equal(found, expected), f'{operation.__name__}: {found}, gloo has {expected}'


def reductions(dtype, op):
    def all_reduce(group):
        tensor = values(dtype)
        dist.all_reduce(tensor, op, group)
        again = values(dtype)
        dist.all_reduce(again, op, group, async_op=True).wait()
        assert torch.equal(tensor, again)
        return [tensor]

    def reduce(group):
        tensor = values(dtype)
        dist.reduce(tensor, size - 1, op, group)
        return [tensor] if me == size - 1 else []

    def reduce_scatter(group):
        output = torch.zeros(5, dtype=dtype)
        dist.reduce_scatter(output, [values(dtype, rank=me + r) for r in range(size)], op, group)
        return [output]

    for operation in (all_reduce, reduce, reduce_scatter):
        on_both(operation)


def moves(dtype):
    def broadcast(group):
        tensor = values(dtype)
        dist.broadcast(tensor, 1, group)
        return [tensor]

    def all_gather(group):
        tensors = [torch.zeros(5, dtype=dtype) for _ in range(size)]
        dist.all_gather(tensors, values(dtype), group)
        output = torch.zeros(5 * size, dtype=dtype)
        dist.all_gather_into_tensor(output, values(dtype), group)
        return [*tensors, output]

    def gather_and_scatter(group):
        tensors = [torch.zeros(5, dtype=dtype) for _ in range(size)] if me == 1 else None
        dist.gather(values(dtype), tensors, 1, group)
        output = torch.zeros(5, dtype=dtype)
        dist.scatter(output, tensors, 1, group)
        return [*(tensors or []), output]

    def send_and_receive(group):
        output = torch.zeros(5, dtype=dtype)
        works = [dist.isend(values(dtype), (me + 1) % size, group, 4),
                 dist.irecv(output, (me - 1) % size, group, 4)]
        for work in works:
            work.wait()
        return [output]

    def all_to_all(group):
        output = torch.zeros(2 * size, dtype=dtype)
        dist.all_to_all_single(output, values(dtype, 2 * size), group=group)
        return [output]

    for operation in (broadcast, all_gather, gather_and_scatter, send_and_receive, all_to_all):
        on_both(operation)


def beyond_gloo():
    """Types, operators and shapes that gloo lacks or computes wrongly."""
    ranks = range(size)
    for dtype in MORE:
        tensor = values(dtype)
        dist.all_reduce(tensor)
        total = sum(values(torch.int64, rank=r) for r in ranks)
        assert torch.equal(tensor.to(torch.int64), total), dtype
    tensor = torch.full((3,), me + 1, dtype=torch.int32)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    assert tensor.tolist() == [sum(r + 1 for r in ranks) // size] * 3
    tensor = torch.tensor([1 + 2j * me])
    dist.all_reduce(tensor)
    assert tensor.item() == complex(size, 2 * sum(ranks))
    tensors = [torch.zeros(r + 1) for r in ranks]
    dist.all_gather(tensors, torch.full((me + 1,), float(me)))
    assert [t.tolist() for t in tensors] == [[float(r)] * (r + 1) for r in ranks]
    blocks = [torch.full((me + r + 1,), float(me)) for r in ranks]
    tensors = [torch.zeros(me + r + 1) for r in ranks]
    dist.all_to_all(tensors, blocks)
    assert [t.tolist() for t in tensors] == [[float(r)] * (me + r + 1) for r in ranks]


def strided():
    """Values are right with any strides. Messages reject tensors that are not contiguous."""
    def column(rank):
        return torch.arange(8.).reshape(4, 2) + rank

    matrix = column(me)
    dist.all_reduce(matrix[:, 1])
    assert torch.equal(matrix[:, 1], sum(column(r)[:, 1] for r in range(size)))
    assert torch.equal(matrix[:, 0], column(me)[:, 0])
    matrix = column(me)
    dist.broadcast(matrix.t(), 0)
    assert torch.equal(matrix, column(0))
    matrix = torch.zeros(size, 2)
    work = dist.all_gather([matrix[r] for r in range(size)], torch.tensor([float(me), 1.]),
                           async_op=True)
    work.wait()
    assert matrix[:, 0].tolist() == [float(r) for r in range(size)]
    try:
        dist.send(column(me)[:, 1], (me + 1) % size)
    except ValueError as error:
        assert 'contiguous' in str(error)
    else:
        raise AssertionError('a strided tensor was sent')


def futures():
    """A callback may start a collective and wait for it, also for its future."""
    def again(future):
        tensor = future.value()[0].clone()
        work = dist.all_reduce(tensor, async_op=True)
        work.get_future().wait()
        return tensor

    tensor = torch.ones(4)
    chained = dist.all_reduce(tensor, async_op=True).get_future().then(again)
    assert chained.wait().tolist() == [float(size * size)] * 4
    work = dist.irecv(torch.zeros(1), (me - 1) % size, tag=11)
    never = work.get_future()
    assert dist.all_reduce(torch.ones(1), async_op=True).get_future().wait() and not never.done()
    assert not work.is_completed()
    dist.barrier()
    dist.send(torch.ones(1), (me + 1) % size, tag=11)
    assert never.wait()[0].item() == 1 and work.is_completed() and work.is_success()


def one_future_of_several_threads():
    """Several threads wait for one work, and another completes its future. Its callbacks run once."""
    for _ in range(200):
        work, done, seen = dist.all_reduce(torch.ones(1), async_op=True), [], []
        future = work.get_future()
        future.add_done_callback(done.append)

        def wait(work=work, future=future, seen=seen):
            work.wait()
            seen.append(future.done() and future.value()[0].item())

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [size] * 3 and len(done) == 1, (seen, done)


def groups():
    first = dist.new_group([0, 1])
    if me < 2:
        tensor = torch.tensor([float(me)])
        dist.all_reduce(tensor, group=first)
        assert tensor.item() == 1
        assert dist.get_process_group_ranks(first) == [0, 1]
    # Each is created from the same group on all ranks, although several groups contain them all.
    for group in [dist.new_group(backend='ringcomm') for _ in range(8)]:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == size
    dist.barrier()


def any_source():
    if me == 0:
        found = set()
        for _ in range(size - 1):
            tensor = torch.zeros(1)
            source = dist.recv(tensor)
            assert tensor.item() == source
            found.add(source)
        assert found == set(range(1, size))
    else:
        dist.send(torch.tensor([float(me)]), 0)
    dist.barrier()


def training():
    """DistributedDataParallel: gloo's gradients."""
    def gradients(group):
        torch.manual_seed(3)
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)),
            process_group=group)
        model(torch.arange(16.).reshape(2, 8) * (me + 1)).sum().backward()
        return [p.grad for p in model.parameters()]

    for found, expected in zip(gradients(ours), gradients(gloo)):
        assert torch.allclose(found, expected, rtol=1e-5), (found, expected)


def objects():
    found = [None] * size
    object_collectives.all_gather_object(found, {'rank': me})
    assert found == [{'rank': r} for r in range(size)]
    dist.all_gather_object(found, me)
    assert found == list(range(size))
    listed = [me, 'text']
    object_collectives.broadcast_object_list(listed, size - 1)
    assert listed == [size - 1, 'text']


def beside_other_backends():
    """A group with device names in its backend string is a Backend, from torch 2.14 on."""
    global ours
    if torch.__version__ < (2, 14):
        return
    plain = ours
    for ours in (dist.new_group(backend='cpu:ringcomm'), dist.new_group(backend='cpu:ringcomm,cuda:gloo')):
        assert 'cpu:ringcomm' in dist.get_backend_config(ours)
        moves(torch.float32)
        for op in OPS:
            reductions(torch.float32, op)
        strided()
        future = dist.all_reduce(values(torch.float32), group=ours, async_op=True).get_future()
        assert torch.equal(future.wait()[0], sum(values(torch.float32, rank=r) for r in range(size)))
        words(ValueError, 'any source', lambda: dist.recv(torch.ones(1), group=ours))
        dist.barrier(ours)
        dist.destroy_process_group(ours)
    ours = plain


def several_of_all_ranks():
    """New groups are created from the same parent on all ranks, whichever other groups are open."""
    made = [dist.new_group() for _ in range(6)]
    for group in made:
        dist.barrier(group)
    for group in made:
        dist.destroy_process_group(group)


def unfinished_at_the_end():
    """A receive without a message resolves its future when its group is destroyed."""
    group = dist.new_group()
    future = dist.irecv(torch.ones(1), src=(me + 1) % size, group=group).get_future()
    dist.barrier(group)
    dist.destroy_process_group(group)
    words(RuntimeError, 'no message had come', future.wait)


def words(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)


def refused():
    words(ValueError, 'entries', lambda: ours.allgather([[torch.ones(1)]], [torch.ones(1)]))
    if torch.__version__ < (2, 14):
        words(ValueError, 'torch 2.14', lambda: dist.new_group(backend='cpu:ringcomm,cuda:gloo'))
    words(RuntimeError, f'Rank {me} timed out in monitoredBarrier',
          lambda: ours.monitored_barrier(datetime.timedelta(0)))
    words(RuntimeError, 'band of float32', lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND))
    dist.barrier()


for dtype in BY_GLOO:
    moves(dtype)
    for op in OPS:
        reductions(dtype, op)
for case in (beyond_gloo, strided, futures, one_future_of_several_threads, groups, any_source, training, objects,
             several_of_all_ranks, unfinished_at_the_end, beside_other_backends, refused):
    case()
dist.destroy_process_group()
print(f'rank {me}: as gloo, and what gloo lacks')
