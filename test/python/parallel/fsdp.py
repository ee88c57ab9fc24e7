# SPDX-License-Identifier: BSD-3-Clause
"""FSDP2: fully_shard, its meshes, policies and checkpoints."""
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import rounding
from models import Model, batch, parameters, ranks, train, whole


def sharded(**options):
    model = Model()
    options.setdefault('mesh', init_device_mesh('cpu', (dist.get_world_size(),)))
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def fsdp_steps():
    found = []
    for again in (True, False):
        model = sharded(reshard_after_forward=again)
        found += train(model) + parameters(model)
    return found


def fsdp_adam_and_clipping():
    model = sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    norms = []
    for step in range(3):
        optimizer.zero_grad()
        model(batch(step)).square().mean().backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor())
        optimizer.step()
    return norms + parameters(model)


def fsdp_accumulation():
    """Gradients are reduced only with the last of several batches."""
    model = sharded()
    for step in range(3):
        last = step == 2
        model.set_requires_gradient_sync(last)
        model.set_is_last_backward(last)
        model(batch(step)).square().mean().backward()
    return [p.grad.full_tensor() for p in model.parameters()]


def _local_gradients(model, x, param):
    """This rank's results in the type `param` before the reduction."""
    local = Model()
    with torch.no_grad():
        for mine, p in zip(local.parameters(), model.parameters()):
            mine.copy_(whole(p))
    local.to(param)(x.to(param)).square().mean().backward()
    return [p.grad for p in local.parameters()]


def fsdp_mixed_precision():
    found = []
    for param, reduced in ((torch.bfloat16, torch.float32), (torch.bfloat16, torch.bfloat16),
                           (torch.float16, torch.float16)):
        model = sharded(mp_policy=MixedPrecisionPolicy(param_dtype=param, reduce_dtype=reduced))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(2):
            optimizer.zero_grad()
            model(batch(step)).square().mean().backward()
            means = rounding.exact_means(_local_gradients(model, batch(step), param))
            found += rounding.errors([whole(p.grad) for p in model.parameters()], means, reduced)
            optimizer.step()
    return found


fsdp_mixed_precision.difference = rounding.no_worse


def fsdp_checkpoint():
    """Saved by all ranks, and loaded into a model with other values."""
    model = sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, optimizer)
    names = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    saved = dict(zip(('model', 'optimizer'), state_dict.get_state_dict(model, optimizer)))
    checkpoint.save(saved, checkpoint_id=names[0])
    fresh = sharded()
    with torch.no_grad():
        for p in fresh.parameters():
            p.zero_()
    second = torch.optim.AdamW(fresh.parameters(), lr=0.01)
    loaded = dict(zip(('model', 'optimizer'), state_dict.get_state_dict(fresh, second)))
    checkpoint.load(loaded, checkpoint_id=names[0])
    state_dict.set_state_dict(fresh, second, model_state_dict=loaded['model'],
                              optim_state_dict=loaded['optimizer'])
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(names[0])
    full = state_dict.get_model_state_dict(
        fresh, options=state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert all(torch.equal(a, b) for a, b in zip(parameters(fresh), parameters(model)))
    return list(full.values()) + train(fresh, second) + parameters(fresh)


@ranks(4)
def fsdp_hybrid():
    """Sharded in one dimension of the mesh, replicated in the other."""
    mesh = init_device_mesh('cpu', (2, dist.get_world_size() // 2), mesh_dim_names=('replicate', 'shard'))
    model = sharded(mesh=mesh)
    return train(model) + parameters(model)


CASES = (fsdp_steps, fsdp_adam_and_clipping, fsdp_accumulation, fsdp_mixed_precision, fsdp_checkpoint,
         fsdp_hybrid)
