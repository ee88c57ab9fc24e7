#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed of torch.distributed over ringcomm and over gloo, on two ranks of one machine.

    export PYTHONPATH=$PWD/build/api/python
    build/tools/ringcomm-run -n 2 -- PYTHON-WITH-TORCH tools/compare/torch_speed.py [--rounds N] [--busy N]

One world has a group of each backend. A round measures each row with one backend, then with the
other, so that the machine's state is the same for both. The table has the median of the rounds in
microseconds; rows named p10 have the 10th percentile. "C" is the library's call alone. --busy N adds
N busy processes.
"""
import argparse
import datetime
import multiprocessing
import os
import statistics
import time
import warnings

warnings.simplefilter('ignore')
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from ringcomm import _core  # noqa: E402
from ringcomm.torch import object_collectives  # noqa: E402

SUM = _core.OPS['sum']
FLOAT32 = _core.DTYPES['float32'][0]
TIMEOUT = datetime.timedelta(seconds=120)
KIB, MIB = 1 << 10, 1 << 20


def tensor_of(nbytes):
    return torch.ones(nbytes // 4)


def all_reduce(nbytes):
    tensor = tensor_of(nbytes)
    return lambda group: dist.all_reduce(tensor, group=group)


def all_reduce_async(nbytes):
    tensor = tensor_of(nbytes)
    return lambda group: dist.all_reduce(tensor, group=group, async_op=True).wait()


def send_recv(nbytes):
    tensor, me = tensor_of(nbytes), dist.get_rank()

    def run(group):
        if me == 0:
            dist.send(tensor, 1, group)
            dist.recv(tensor, 1, group)
        else:
            dist.recv(tensor, 0, group)
            dist.send(tensor, 0, group)
    return run


def all_gather(nbytes):
    tensor = tensor_of(nbytes)
    outputs = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    return lambda group: dist.all_gather(outputs, tensor, group=group)


def objects(group):
    outputs = [None] * dist.get_world_size()
    gather = dist if dist.get_backend(group) == 'gloo' else object_collectives
    gather.all_gather_object(outputs, {'step': 1}, group=group)


def training_step():
    """Forward and backward of a model with 2 MiB of gradients under DDP, one for each group."""
    models, data = {}, torch.ones(4, 724)

    def run(group):
        if group not in models:
            torch.manual_seed(0)
            models[group] = torch.nn.parallel.DistributedDataParallel(
                torch.nn.Linear(724, 724), process_group=group)
        models[group](data).sum().backward()
    return run


def rows():
    """(name, repetitions in a round, operation, statistic)"""
    median, p10 = statistics.median, lambda times: statistics.quantiles(times, n=10)[0]
    return [
        ('all_reduce 4 B', 200, all_reduce(4), median),
        ('all_reduce 4 KiB', 200, all_reduce(4 * KIB), median),
        ('all_reduce 1 MiB', 20, all_reduce(MIB), median),
        ('all_reduce 16 MiB', 3, all_reduce(16 * MIB), median),
        ('all_reduce 4 B, async + wait, p10', 200, all_reduce_async(4), p10),
        ('all_reduce 1 MiB, async + wait', 20, all_reduce_async(MIB), median),
        ('send + recv 4 B', 100, send_recv(4), median),
        ('send + recv 1 MiB', 10, send_recv(MIB), median),
        ('all_gather 4 KiB', 100, all_gather(4 * KIB), median),
        ('barrier', 100, lambda group: dist.barrier(group), median),
        ('all_gather_object', 50, objects, median),
        ('DDP step, 2 MiB of gradients', 5, training_step(), median),
    ]


def time_once(operation, group):
    began = time.perf_counter()
    operation(group)
    return (time.perf_counter() - began) * 1e6


def c_call(nbytes):
    """The library's blocking call on the communicator of the group."""
    tensor = tensor_of(nbytes)
    address, count = tensor.data_ptr(), tensor.numel()
    return lambda group: _core.all_reduce(group._comm, address, address, count, FLOAT32, SUM,
                                          tensor, 0, 0)


def measure(groups, table, rounds):
    times = {(name, kind): [] for name, *_ in table for kind in groups}
    for _ in range(rounds):
        for name, repetitions, operation, _statistic in table:
            for kind, group in groups.items():
                operation(group)
                times[name, kind] += [time_once(operation, group) for _ in range(repetitions)]
    return {(name, kind): statistic(times[name, kind])
            for name, _, _, statistic in table for kind in groups}


def processor():
    with open('/proc/cpuinfo') as file:
        return next((line.split(':')[1].strip() for line in file if line.startswith('model name')), '?')


def report(found, table, calls):
    print(f'torch {torch.__version__}, {dist.get_world_size()} ranks, {os.cpu_count()} CPUs, {processor()}\n')
    print('| | gloo | ringcomm | gloo / ringcomm | C |\n|---|---|---|---|---|')
    for name, *_ in table:
        gloo, ours = found[name, 'gloo'], found[name, 'ringcomm']
        alone = f'{calls[name]:.1f}' if name in calls else ''
        print(f'| {name} | {gloo:.0f} | {ours:.1f} | {gloo / ours:.2f} | {alone} |')


def busy():
    until = time.monotonic() + 600
    while time.monotonic() < until:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--busy', type=int, default=0, help='busy processes added')
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group('ringcomm', timeout=TIMEOUT)
    groups = {'gloo': dist.new_group(backend='gloo', timeout=TIMEOUT), 'ringcomm': dist.group.WORLD}
    loads = [multiprocessing.Process(target=busy, daemon=True)
             for _ in range(options.busy if dist.get_rank() == 0 else 0)]
    for load in loads:
        load.start()
    table = rows()
    found = measure(groups, table, options.rounds)
    alone = [(name, repetitions, c_call(nbytes), statistics.median) for name, repetitions, nbytes in (
        ('all_reduce 4 B', 200, 4), ('all_reduce 4 KiB', 200, 4 * KIB), ('all_reduce 1 MiB', 20, MIB),
        ('all_reduce 16 MiB', 3, 16 * MIB))]
    calls = measure({'ringcomm': dist.group.WORLD}, alone, options.rounds)
    for load in loads:
        load.kill()
    if dist.get_rank() == 0:
        report(found, table, {name: calls[name, 'ringcomm'] for name, *_ in alone})
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
