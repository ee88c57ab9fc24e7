# SPDX-License-Identifier: BSD-3-Clause
"""Functional collectives, eager and in torch.compile(backend="aot_eager"), and torch.distributed.nn."""
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.nn import functional as differentiable
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.nn.parallel import DistributedDataParallel as DDP

from dtensor import line, square
from fsdp import sharded
from models import Model, batch, parameters, train


def group():
    return dist.group.WORLD


def _collectives(tensor, of):
    """Every functional collective that does not change its argument."""
    size = dist.get_world_size()
    wide = torch.cat([tensor + i for i in range(size)])
    return [functional.all_reduce(tensor, 'sum', of), functional.all_reduce(tensor, 'max', of),
            functional.all_gather_tensor(tensor, 0, of), functional.all_gather_tensor(tensor, 1, of),
            functional.reduce_scatter_tensor(wide, 'sum', 0, of),
            functional.reduce_scatter_tensor(wide.t(), 'avg', 1, of),
            functional.broadcast(tensor, 1, of),
            functional.all_to_all_single(wide, None, None, of)]


def functional_collectives():
    found = [*_collectives(batch(), group()), *_collectives(batch().t(), group())]
    mesh = square()
    found += [functional.all_reduce(batch(), 'sum', mesh['dp']), functional.all_reduce(batch(), 'sum', (mesh, 1))]
    found += functional.all_reduce_coalesced([batch(), batch(1)[:2]], 'sum', group())
    found += functional.all_gather_into_tensor_coalesced([batch(), batch(1)[:2]], group())
    size = dist.get_world_size()
    found += functional.reduce_scatter_tensor_coalesced([batch(rows=size), batch(1, rows=2 * size)], 'sum',
                                                        [0, 0], group())
    found.append(functional.permute_tensor(batch().flatten(), [*range(1, size), 0], group()))
    return [functional.wait_tensor(tensor) for tensor in found]


def functional_uneven():
    """all_to_all_single with different numbers of rows for each rank."""
    me, size = dist.get_rank(), dist.get_world_size()
    splits, received = [me + r + 1 for r in range(size)], [r + me + 1 for r in range(size)]
    tensor = batch(rows=sum(splits)).requires_grad_()
    output = functional.all_to_all_single_autograd(tensor, received, splits, group())
    (output * output).sum().backward()
    return [output.detach(), tensor.grad]


def functional_gradients():
    found = []
    for collective in (
            lambda t: functional.all_gather_tensor_autograd(t, 0, group()),
            lambda t: functional.reduce_scatter_tensor_autograd(t, 'sum', 0, group()),
            lambda t: differentiable.all_reduce(t),
            lambda t: torch.cat(differentiable.all_gather(t)),
            lambda t: differentiable.broadcast(t.clone(), 0),
            lambda t: differentiable.all_to_all_single(torch.empty_like(t), t)):
        tensor = batch(rows=dist.get_world_size()).requires_grad_()
        output = collective(tensor)
        (output * output).sum().backward()
        found += [output.detach(), tensor.grad]
    return found


# ---- In torch.compile ----------------------------------------------------------------------------------

def _compile(function):
    torch._dynamo.reset()
    return torch.compile(function, backend='aot_eager', fullgraph=True)


def compiled_functional():
    def function(tensor):
        return [output * 2 for output in _collectives(tensor + 1, group())]

    found = _compile(function)(batch())
    torch.testing.assert_close(found, function(batch()))
    return found


def compiled_in_place():
    """torch.compile replaces calls of torch.distributed by functional collectives."""
    size = dist.get_world_size()

    def function(tensor, gathered, scattered, exchanged):
        tensor = tensor * 2
        dist.all_reduce(tensor)
        dist.all_gather_into_tensor(gathered, tensor)
        dist.reduce_scatter_tensor(scattered, gathered)
        dist.all_to_all_single(exchanged, gathered)
        return tensor + 1, gathered + 1, scattered + 1, exchanged + 1

    arguments = (batch(), torch.zeros(4 * size, 12), torch.zeros(4, 12), torch.zeros(4 * size, 12))
    return _compile(function)(*arguments)


def compiled_dtensor():
    mesh = line()

    def function(tensor):
        sharded_tensor = DTensor.from_local(tensor, mesh, [Shard(0)], run_check=False)
        summed = DTensor.from_local(tensor, mesh, [Partial()], run_check=False).redistribute(mesh, [Replicate()])
        return sharded_tensor.redistribute(mesh, [Replicate()]).to_local() * 2, summed.to_local()

    return _compile(function)(batch())


def compiled_ddp():
    """The graph is cut at the buckets of DDP."""
    torch._dynamo.reset()
    model = DDP(Model(), bucket_cap_mb=1)
    return train(torch.compile(model, backend='aot_eager')) + parameters(model)


def compiled_fsdp():
    torch._dynamo.reset()
    model = sharded()
    return train(torch.compile(model, backend='aot_eager')) + parameters(model)


CASES = (functional_collectives, functional_uneven, functional_gradients, compiled_functional,
         compiled_in_place, compiled_dtensor, compiled_ddp, compiled_fsdp)
