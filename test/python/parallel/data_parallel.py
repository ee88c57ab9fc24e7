# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel with its hooks, join and no_sync; ZeroRedundancyOptimizer."""
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_sgd
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

import rounding
from models import WIDTH, Model, batch, parameters, train


def ddp_overlap():
    """Several buckets, whose reductions overlap the rest of the backward pass."""
    found = []
    for options in ({}, {'gradient_as_bucket_view': True}, {'static_graph': True},
                    {'find_unused_parameters': True}):
        model = DDP(Model(), bucket_cap_mb=0.001, **options)
        found += train(model) + parameters(model)
    return found


def ddp_unused_parameters():
    """Ranks use different parameters."""
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x):
            return self.parts[dist.get_rank()](self.parts[3](x))

    model = DDP(Partly(), find_unused_parameters=True, bucket_cap_mb=0.001)
    return train(model) + parameters(model)


def ddp_buffers():
    """Rank 0's buffers are broadcast."""
    torch.manual_seed(3)
    model = DDP(nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)))
    return train(model) + parameters(model) + list(model.buffers())


def ddp_no_sync():
    model = DDP(Model(), bucket_cap_mb=0.001)
    with model.no_sync():
        model(batch(0)).square().mean().backward()
    local = [p.grad.clone() for p in model.parameters()]
    model(batch(1)).square().mean().backward()
    return local + [p.grad for p in model.parameters()]


def ddp_join():
    """Ranks with more data go on. Ranks without data take part in their collectives."""
    found = []
    for divide in (True, False):
        model = DDP(Model(), bucket_cap_mb=0.001)
        with model.join(divide_by_initial_world_size=divide):
            found += train(model, steps=2 + dist.get_rank())
        found += parameters(model)
    return found


def _with_hook(state, hook, steps=3, bucket_cap_mb=0.001):
    model = DDP(Model(), bucket_cap_mb=bucket_cap_mb)
    model.register_comm_hook(state, hook)
    return train(model, steps=steps) + parameters(model)


def ddp_hooks():
    """An allreduce hook in Python, and the one in C++."""
    model = DDP(Model(), bucket_cap_mb=0.001)
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    return _with_hook(dist.group.WORLD, default_hooks.allreduce_hook) + train(model) + parameters(model)


def ddp_16_bit():
    """Gradients reduced in 16 bits: of models of such a type, and by each compressing hook."""
    def hooked(hook):
        model = DDP(Model(), bucket_cap_mb=0.001)
        model.register_comm_hook(dist.group.WORLD, hook)
        return model

    builtin = DDP(Model(), bucket_cap_mb=0.001)
    builtin._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    found = []
    for model, reduced in ((DDP(Model().to(torch.bfloat16), bucket_cap_mb=0.001), torch.bfloat16),
                           (DDP(Model().to(torch.float16), bucket_cap_mb=0.001), torch.float16),
                           (hooked(default_hooks.fp16_compress_hook), torch.float16),
                           (hooked(default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)), torch.float16),
                           (builtin, torch.float16)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(2):
            x = batch(step).to(next(model.parameters()).dtype)
            local = copy.deepcopy(model.module)
            optimizer.zero_grad()
            local.zero_grad()
            for one in (model, local):
                one(x).square().mean().backward()
            found += rounding.errors([p.grad for p in model.parameters()],
                                     rounding.exact_means([p.grad for p in local.parameters()]), reduced)
            optimizer.step()
    return found


ddp_16_bit.difference = rounding.no_worse


def ddp_hook_chained():
    """The future of one collective starts another in its callback. With several buckets the order of
    collectives would differ between ranks, over gloo as well."""
    def hook(_, bucket):
        tensor = bucket.buffer().div_(dist.get_world_size())

        def gather(future):
            summed = future.value()[0]
            blocks = [torch.empty_like(summed) for _ in range(dist.get_world_size())]
            dist.all_gather(blocks, summed)
            return sum(blocks) / len(blocks)

        return dist.all_reduce(tensor, async_op=True).get_future().then(gather)

    return _with_hook(None, hook, bucket_cap_mb=25)


def ddp_hook_power_sgd():
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    return _with_hook(state, powerSGD_hook.powerSGD_hook, steps=5, bucket_cap_mb=25)


def ddp_local_sgd():
    """Gradients are averaged in a subgroup, parameters over all ranks in every second step."""
    subgroup = dist.new_subgroups(group_size=2)[0]
    state = local_sgd.PostLocalSGDState(None, subgroup, start_localSGD_iter=2)
    model = DDP(Model(), bucket_cap_mb=0.001)
    model.register_comm_hook(state, local_sgd.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.05),
                                      averagers.PeriodicModelAverager(period=2, warmup_steps=1))
    return train(model, optimizer, steps=5) + parameters(model)


def zero_optimizer():
    found = []
    for view in (False, True):
        model = DDP(Model(), bucket_cap_mb=0.001)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01,
                                            parameters_as_bucket_view=view)
        found += train(model, optimizer)
        optimizer.consolidate_state_dict(to=0)
        found += parameters(model)
        if dist.get_rank() == 0:
            found.append(optimizer.state_dict()['state'])
    return found


def zero_optimizer_join():
    model = DDP(Model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        losses = train(model, optimizer, steps=2 + dist.get_rank())
    return losses + parameters(model)


CASES = (ddp_overlap, ddp_unused_parameters, ddp_buffers, ddp_no_sync, ddp_join, ddp_hooks,
         ddp_16_bit, ddp_hook_chained, ddp_hook_power_sgd, ddp_local_sgd,
         zero_optimizer, zero_optimizer_join)
