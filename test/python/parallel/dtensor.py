# SPDX-License-Identifier: BSD-3-Clause
"""DeviceMesh, DTensor, and tensor parallelism by parallelize_module."""
import itertools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (DTensor, Partial, Replicate, Shard, distribute_module,
                                      distribute_tensor)
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput,
                                               RowwiseParallel, SequenceParallel, loss_parallel,
                                               parallelize_module)

from models import WIDTH, Model, batch, parameters, ranks


def line():
    return init_device_mesh('cpu', (dist.get_world_size(),))


def square(names=('dp', 'tp')):
    return init_device_mesh('cpu', (2, dist.get_world_size() // 2), mesh_dim_names=names)


def mesh_groups():
    """Each dimension of a mesh has groups, and so have slices and flattened meshes."""
    mesh = square()
    flat = mesh['dp', 'tp']._flatten('all')
    of_group = DeviceMesh.from_group(mesh.get_group('dp'), 'cpu')
    found = [mesh.mesh, flat.mesh, of_group.mesh, mesh.get_coordinate(), mesh.get_local_rank('tp')]
    for group in (*mesh.get_all_groups(), mesh['tp'].get_group(), flat.get_group(), of_group.get_group()):
        tensor = torch.tensor([float(dist.get_rank() + 1)])
        dist.all_reduce(tensor, group=group)
        found += [tensor, dist.get_process_group_ranks(group), dist.get_backend(group) == dist.get_backend()]
    return found


def dtensor_redistribute():
    """Every pair of placements, with sizes that are multiples of the ranks and others."""
    mesh, found = line(), []
    for rows, columns in ((8, 4), (5, 7), (1, 3)):
        values = torch.arange(float(rows * columns)).reshape(rows, columns)
        for source, target in itertools.product((Replicate(), Shard(0), Shard(1), Partial()),
                                                (Replicate(), Shard(0), Shard(1))):
            if isinstance(source, Partial):
                tensor = DTensor.from_local(values * (dist.get_rank() + 1), mesh, [source])
            else:
                tensor = distribute_tensor(values, mesh, [source])
            moved = tensor.redistribute(mesh, [target])
            found += [moved.to_local(), moved.full_tensor()]
    return found


def dtensor_reductions():
    """Pending reductions by each operator of torch."""
    mesh, found = line(), []
    for op in ('sum', 'avg', 'max', 'min', 'product'):
        values = batch().abs() + 1
        tensor = DTensor.from_local(values, mesh, [Partial(op)])
        found += [tensor.full_tensor(), tensor.redistribute(mesh, [Shard(1)]).to_local()]
    return found


def dtensor_operations():
    mesh, found = line(), []
    left, right = batch(rank=0, rows=8), batch(rank=1, rows=WIDTH)
    for a, b in itertools.product((Replicate(), Shard(0), Shard(1)), repeat=2):
        product = distribute_tensor(left, mesh, [a]) @ distribute_tensor(right, mesh, [b])
        found += [product.full_tensor(), product.softmax(1).full_tensor(), product.norm().full_tensor(),
                  product.max().full_tensor(), product.sum(0).full_tensor()]
    torch.testing.assert_close(found[0], left @ right)
    return found


def dtensor_gradients():
    mesh = line()
    weight = distribute_tensor(batch(rank=1, rows=WIDTH), mesh, [Shard(0)]).requires_grad_()
    value = distribute_tensor(batch(rank=0), mesh, [Shard(0)]).requires_grad_()
    (value @ weight).redistribute(mesh, [Replicate()]).to_local().square().sum().backward()
    return [weight.grad.full_tensor(), value.grad.full_tensor()]


def dtensor_module():
    model = distribute_module(Model(), line())
    model(distribute_tensor(batch(rank=0), line(), [Shard(0)])).square().mean().backward()
    return [p.grad.full_tensor() for p in model.parameters()]


@ranks(4)
def dtensor_two_dimensions():
    mesh, found = square(), []
    values = torch.arange(60.).reshape(6, 10)
    places = (Replicate(), Shard(0), Shard(1))
    for source, target in itertools.product(itertools.product(places, repeat=2), repeat=2):
        moved = distribute_tensor(values, mesh, source).redistribute(mesh, target)
        found += [moved.to_local(), moved.full_tensor()]
    return found


# ---- Tensor parallelism --------------------------------------------------------------------------------

def _parallel(mesh):
    model = Model()
    for block in model.blocks:
        parallelize_module(block, mesh, {'up': ColwiseParallel(), 'down': RowwiseParallel()})
    return parallelize_module(model, mesh, {'last': ColwiseParallel(output_layouts=Replicate())})


def _one_batch_for_all(model):
    """Ranks of one tensor-parallel group train on equal data. Losses and gradients of two steps."""
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.05), []
    for step in range(2):
        optimizer.zero_grad()
        loss = model(batch(step, rank=0)).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return found


def tensor_parallel():
    model = _parallel(line())
    alone = Model()
    found = _one_batch_for_all(model)
    torch.testing.assert_close(found, _one_batch_for_all(alone))
    torch.testing.assert_close(parameters(model), parameters(alone))
    return found + parameters(model)


def tensor_parallel_sequence():
    """Activations between layers are sharded by rows."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.ReLU(), nn.Linear(24, WIDTH),
                          nn.LayerNorm(WIDTH))
    mesh = line()
    parallelize_module(model, mesh, {
        '0': SequenceParallel(sequence_dim=0),
        '1': ColwiseParallel(input_layouts=Shard(0)),
        '3': RowwiseParallel(output_layouts=Shard(0)),
        '4': SequenceParallel(sequence_dim=0),
    })
    parallelize_module(model, mesh, PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(0)))
    parallelize_module(model, mesh, PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate()))
    return _one_batch_for_all(model) + parameters(model)


def tensor_parallel_loss():
    mesh = line()
    model = parallelize_module(nn.Linear(WIDTH, 8), mesh, ColwiseParallel(use_local_output=False))
    with loss_parallel():
        loss = nn.functional.cross_entropy(model(batch(rank=0)), torch.tensor([0, 3, 5, 7]))
        loss.backward()
    return [loss.full_tensor(), *(p.grad.full_tensor() for p in model.parameters())]


def tensor_parallel_embedding():
    found = []
    for style in (RowwiseParallel(input_layouts=Replicate()), ColwiseParallel(output_layouts=Replicate())):
        torch.manual_seed(3)
        model = parallelize_module(nn.Embedding(16, WIDTH), line(), style)
        output = model(torch.tensor([[0, 5, 15], [7, 8, 1]]))
        output.square().sum().backward()
        found += [output.detach(), *(p.grad.full_tensor() for p in model.parameters())]
    return found


@ranks(4)
def tensor_parallel_and_fsdp():
    mesh = square()
    model = _parallel(mesh['tp'])
    for block in model.blocks:
        fully_shard(block, mesh=mesh['dp'])
    fully_shard(model, mesh=mesh['dp'])
    row = mesh.get_local_rank('dp')
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.05), []
    for step in range(2):
        optimizer.zero_grad()
        loss = model(batch(step, rank=row)).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return found + parameters(model)


CASES = (mesh_groups, dtensor_redistribute, dtensor_reductions, dtensor_operations, dtensor_gradients,
         dtensor_module, dtensor_two_dimensions, tensor_parallel, tensor_parallel_sequence,
         tensor_parallel_loss, tensor_parallel_embedding, tensor_parallel_and_fsdp)
