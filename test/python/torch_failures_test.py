#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The last rank dies while the others run DistributedDataParallel. Each gets an exception with the library's
error text, also from the Reducer in C++ and from the future of a work."""
import datetime
import os
import time
import warnings

warnings.simplefilter('ignore')
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from ringcomm.torch import autoload  # noqa: E402

BACKENDS = ['ringcomm'] + ['cpu:ringcomm'] * (torch.__version__ >= (2, 14))


def models(group):
    """One model for each kind of hook."""
    made = [DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group) for _ in range(4)]
    made[1].register_comm_hook(group, allreduce_hook)
    made[2]._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    made[3]._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    return made


def expect_loss(kind, function):
    try:
        function()
    except kind as error:
        assert f'lost rank {victim}' in str(error), error
    else:
        raise AssertionError('no exception after the death of a rank')


autoload.register()
dist.init_process_group('ringcomm', timeout=datetime.timedelta(seconds=60))
me, victim = dist.get_rank(), dist.get_world_size() - 1
groups = [dist.new_group(backend=backend) for backend in BACKENDS]
all_models = [model for group in groups for model in models(group)]
# Its first pass reduces after the backward pass, in a callback of the autograd engine.
late = [DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group, static_graph=True) for group in groups]
for model in all_models:  # buckets are made anew after the first pass
    model(torch.ones(2, 4)).sum().backward()
dist.barrier()
if me == victim:
    time.sleep(0.3)
    os._exit(0)  # the launcher must not fail
for model in all_models + late:
    expect_loss(RuntimeError, lambda: model(torch.ones(2, 4)).sum().backward())
expect_loss(dist.DistBackendError, lambda: dist.all_reduce(torch.ones(1), async_op=True).get_future().wait())
print(f'rank {me}: {len(all_models)} models failed with the loss of rank {victim}')
