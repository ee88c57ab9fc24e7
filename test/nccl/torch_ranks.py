# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of torch's ProcessGroupNCCL on libnccl.so.2 and the CUDA emulator, under ringcomm-run --nccl.

    torch_ranks.py CASE
    torch_ranks.py tutorial nccl|gloo PROGRAM   a program of test/python/tutorials/; gloo: on the CPU

torch's own kernels have no PTX, so data come by .cuda(), and results are compared on the CPU.
"""
import datetime
import os
import re
import signal
import sys
import time

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]


def begin(backend='nccl', **more):
    torch.cuda.set_device(RANK % torch.cuda.device_count())
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=more.pop('seconds', 120)), **more)


def numbers(rank, n=6, dtype=torch.float32):
    """Small numbers, exact in every type."""
    return (torch.arange(n) % 5 + rank + 1).to(dtype)


def everywhere(n=6, dtype=torch.float32):
    return [numbers(r, n, dtype) for r in range(SIZE)]


def same(got, want, what):
    got = got.cpu()
    assert torch.equal(got, want), f'rank {RANK}: {what}: {got.tolist()[:9]} instead of {want.tolist()[:9]}'


# ---- All operations ----

def reductions(group=None):
    ops = {dist.ReduceOp.SUM: lambda t: t.sum(0), dist.ReduceOp.MAX: lambda t: t.max(0)[0],
           dist.ReduceOp.MIN: lambda t: t.min(0)[0], dist.ReduceOp.PRODUCT: lambda t: t.prod(0)}
    for dtype in TYPES:
        whole = torch.stack(everywhere(dtype=dtype)).to(torch.float64)
        for op, reference in ops.items():
            mine = numbers(RANK, dtype=dtype).cuda()
            dist.all_reduce(mine, op, group=group)
            same(mine, reference(whole).to(dtype), f'all_reduce {op} {dtype}')
    mine = numbers(RANK).cuda()
    dist.all_reduce(mine, dist.ReduceOp.AVG)
    same(mine, torch.stack(everywhere()).sum(0) / SIZE, 'avg')
    for scale in 2.0, torch.tensor([2.0]).cuda():
        mine = numbers(RANK).cuda()
        dist.all_reduce(mine, dist._make_nccl_premul_sum(scale))
        same(mine, torch.stack(everywhere()).sum(0) * 2, f'premul_sum {type(scale)}')
    mine = numbers(RANK, 300000).cuda()
    dist.all_reduce(mine)
    same(mine, torch.stack(everywhere(300000)).sum(0), '300,000 floats')
    mine = numbers(RANK).cuda()
    dist.reduce(mine, SIZE - 1)
    if RANK == SIZE - 1:
        same(mine, torch.stack(everywhere()).sum(0), 'reduce')


def blocks():
    whole = everywhere()
    mine = numbers(RANK).cuda()
    received = [torch.empty(6).cuda() for _ in range(SIZE)]
    dist.all_gather(received, mine)
    for r in range(SIZE):
        same(received[r], whole[r], 'all_gather')
    tensor = torch.empty(6 * SIZE).cuda()
    dist.all_gather_into_tensor(tensor, mine)
    same(tensor, torch.cat(whole), 'all_gather_into_tensor')
    uneven = [torch.empty(r + 1).cuda() for r in range(SIZE)]
    dist.all_gather(uneven, numbers(RANK, RANK + 1).cuda())
    for r in range(SIZE):
        same(uneven[r], numbers(r, r + 1), 'all_gather of unequal tensors')
    out = torch.empty(3).cuda()
    dist.reduce_scatter_tensor(out, numbers(RANK, 3 * SIZE).cuda())
    same(out, torch.stack(everywhere(3 * SIZE)).sum(0)[3 * RANK:3 * RANK + 3], 'reduce_scatter_tensor')
    dist.reduce_scatter(out, list(numbers(RANK, 3 * SIZE).cuda().split(3)))
    same(out, torch.stack(everywhere(3 * SIZE)).sum(0)[3 * RANK:3 * RANK + 3], 'reduce_scatter')
    received = [torch.empty(6).cuda() for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(mine, received, 0)
    if RANK == 0:
        for r in range(SIZE):
            same(received[r], whole[r], 'gather')
    dist.scatter(out, [t.cuda() for t in numbers(0, 3 * SIZE).split(3)] if RANK == 0 else None, 0)
    same(out, numbers(0, 3 * SIZE)[3 * RANK:3 * RANK + 3], 'scatter')
    mine = numbers(RANK).cuda()
    dist.broadcast(mine, SIZE - 1)
    same(mine, whole[SIZE - 1], 'broadcast')


def exchanges():
    tensor = torch.empty(2 * SIZE).cuda()
    dist.all_to_all_single(tensor, numbers(RANK, 2 * SIZE).cuda())
    same(tensor, torch.cat([numbers(r, 2 * SIZE)[2 * RANK:2 * RANK + 2] for r in range(SIZE)]), 'all_to_all_single')
    lens = [r + 1 for r in range(SIZE)]
    tensor = torch.empty((RANK + 1) * SIZE).cuda()
    dist.all_to_all_single(tensor, numbers(RANK, sum(lens)).cuda(), [RANK + 1] * SIZE, lens)
    at = sum(lens[:RANK])
    same(tensor, torch.cat([numbers(r, sum(lens))[at:at + RANK + 1] for r in range(SIZE)]), 'unequal all_to_all_single')
    received = [torch.empty(4).cuda() for _ in range(SIZE)]
    dist.all_to_all(received, [numbers(RANK * 10 + r, 4).cuda() for r in range(SIZE)])
    for r in range(SIZE):
        same(received[r], numbers(r * 10 + RANK, 4), 'all_to_all')


def messages():
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = torch.empty(6).cuda()
    if RANK % 2 == 0:
        dist.send(numbers(RANK).cuda(), right)
        dist.recv(got, left)
    else:
        dist.recv(got, left)
        dist.send(numbers(RANK).cuda(), right)
    same(got, numbers(left), 'send and recv')
    got = torch.empty(6).cuda()
    ops = [dist.P2POp(dist.isend, numbers(RANK).cuda(), right), dist.P2POp(dist.irecv, got, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(got, numbers(left), 'batch_isend_irecv')


def coalesced():
    tensors = [numbers(RANK + i).cuda() for i in range(3)]
    with dist._coalescing_manager(device=torch.device('cuda', torch.cuda.current_device()), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.stack([numbers(r + i) for r in range(SIZE)]).sum(0), 'coalesced')


def groups():
    ranks = [0, SIZE - 1]
    group = dist.new_group(ranks)
    if RANK in ranks:
        mine = numbers(RANK).cuda()
        dist.all_reduce(mine, group=group)
        same(mine, numbers(0) + numbers(SIZE - 1), 'new_group')
        dist.destroy_process_group(group)


def split():
    """With a device id, torch makes communicators at once and divides them by ncclCommSplit."""
    part = dist.split_group(split_ranks=[list(range(0, SIZE, 2)), list(range(1, SIZE, 2))])
    members = list(range(RANK % 2, SIZE, 2))
    mine = numbers(RANK).cuda()
    dist.all_reduce(mine, group=part)
    same(mine, torch.stack([numbers(r) for r in members]).sum(0), 'split_group')


def streams():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        mine = numbers(RANK, 5000).pin_memory().cuda(non_blocking=True)
        work = dist.all_reduce(mine, async_op=True)
        work.wait()
        copy = mine.clone()  # after the result, on this stream
    side.synchronize()
    same(copy, torch.stack(everywhere(5000)).sum(0), 'a side stream')
    works = [dist.all_reduce(numbers(RANK + i).cuda(), async_op=True) for i in range(20)]
    for work in works:
        work.wait()


def operations():
    begin()
    reductions()
    blocks()
    exchanges()
    messages()
    coalesced()
    groups()
    streams()
    dist.barrier()
    dist.destroy_process_group()


def divided():
    begin(device_id=torch.device('cuda', RANK % torch.cuda.device_count()))
    split()
    dist.barrier()
    dist.destroy_process_group()


def objects():
    begin('cpu:ringcomm,cuda:nccl')
    everyone = [None] * SIZE
    dist.all_gather_object(everyone, {'rank': RANK})
    assert everyone == [{'rank': r} for r in range(SIZE)], everyone
    mine = numbers(RANK).cuda()
    dist.all_reduce(mine)
    same(mine, torch.stack(everywhere()).sum(0), 'all_reduce')
    mine = numbers(RANK)
    dist.all_reduce(mine)
    same(mine, torch.stack(everywhere()).sum(0), 'all_reduce of the CPU')
    dist.barrier()
    dist.destroy_process_group()


# ---- Programs of a tutorial ----

def tutorial():
    """Sums of tensors on the device would need kernels, so they are made on the CPU; so are texts for print."""
    backend, path = sys.argv[2:]
    with open(path) as file:
        text = file.read()
    device = '.to(torch.cuda.current_device())'
    text = text.replace(f'{device} * rank', f'.mul(rank){device}')
    if backend == 'gloo':
        text = text.replace(device, '').replace('torch.cuda.set_device(rank)', '').replace('"nccl"', '"gloo"')
        text = re.sub(r', device=torch\.device\(torch\.cuda\.current_device\(\)\),?', '', text)
    else:
        torch.cuda.set_device(RANK)
    show = torch.Tensor.__repr__
    torch.Tensor.__repr__ = lambda tensor, **more: show(tensor.cpu(), **more)
    torch.manual_seed(7)
    exec(compile(text, path, 'exec'), {'__name__': '__main__'})
    dist.destroy_process_group()


# ---- Failures: torch's error has the library's sentence ----

def failing(cause):
    """Rank 1 does something else at `cause`. The others print what torch reports, and when."""
    begin()
    mine = numbers(RANK, 60).cuda()
    dist.all_reduce(mine)
    torch.cuda.synchronize()
    print(f'READY {RANK}', flush=True)
    time.sleep(0.5)
    print(f'CAUSE {time.time()}', flush=True)
    cause(mine)
    try:
        if RANK != 1:
            dist.all_reduce(mine)
        torch.cuda.synchronize()
    except Exception as error:
        print(f'REPORT {time.time()} {error}'.replace('\n', ' '), flush=True)
    time.sleep(20)


def mismatch():
    failing(lambda t: dist.broadcast(t, 0) if RANK == 1 else None)


def killed():
    failing(lambda t: os.kill(os.getpid(), signal.SIGKILL) if RANK == 1 else None)


def sleeping():
    failing(lambda t: time.sleep(12) if RANK == 1 else None)


if __name__ == '__main__':
    globals()[sys.argv[1]]()
    print(f'DONE {RANK}', flush=True)
