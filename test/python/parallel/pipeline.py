# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed.pipelining: schedules whose stages exchange activations by messages."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B, ScheduleGPipe,
                                          ScheduleInterleaved1F1B, ScheduleLoopedBFS)

from models import Block, batch

MICROBATCHES = 4


def _layers(count):
    torch.manual_seed(3)
    return [Block() for _ in range(count)]


def _loss(output, target):
    return (output - target).square().mean()


def _step(schedule, stages):
    """Losses and gradients of this rank's stages."""
    losses = []
    arguments = (batch(rank=0, rows=8),) if any(stage.is_first for stage in stages) else ()
    if any(stage.is_last for stage in stages):
        output = schedule.step(*arguments, target=batch(rank=1, rows=8), losses=losses)
        losses.append(output.detach())
    else:
        schedule.step(*arguments)
    return [torch.tensor(0.), *(loss.detach() for loss in losses),
            *(p.grad.clone() for stage in stages for p in stage.submod.parameters())]


def _run(kind, stages_of_rank, steps=2):
    me, size = dist.get_rank(), dist.get_world_size()
    count = size * stages_of_rank
    layers = _layers(count)
    stages = [PipelineStage(layers[i], i, count, torch.device('cpu')) for i in range(me, count, size)]
    schedule = kind(stages[0] if stages_of_rank == 1 else stages, MICROBATCHES, loss_fn=_loss)
    return [result for _ in range(steps) for result in _step(schedule, stages)]


def pipeline_gpipe():
    return _run(ScheduleGPipe, 1)


def pipeline_1f1b():
    return _run(Schedule1F1B, 1)


def pipeline_interleaved():
    return _run(ScheduleInterleaved1F1B, 2) + _run(ScheduleLoopedBFS, 2)


def pipeline_gradients():
    """Losses and gradients of one process with the whole model."""
    found = _run(Schedule1F1B, 1, steps=1)
    model = nn.Sequential(*_layers(dist.get_world_size()))
    _loss(model(batch(rank=0, rows=8)), batch(rank=1, rows=8)).backward()
    expected = [p.grad for p in model[dist.get_rank()].parameters()]
    torch.testing.assert_close(found[-len(expected):], expected)
    return found


def batched_messages():
    """batch_isend_irecv around the ring in both directions, with several types."""
    me, size = dist.get_rank(), dist.get_world_size()
    found = []
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        sent = (batch() * 8).to(dtype)
        left, right = torch.zeros_like(sent), torch.zeros_like(sent)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, sent, (me + 1) % size), dist.P2POp(dist.irecv, left, (me - 1) % size),
            dist.P2POp(dist.isend, sent + 1, (me - 1) % size), dist.P2POp(dist.irecv, right, (me + 1) % size)])
        for work in works:
            work.wait()
        found += [left, right]
    return found


CASES = (pipeline_gpipe, pipeline_1f1b, pipeline_interleaved, pipeline_gradients, batched_messages)
