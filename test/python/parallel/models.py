# SPDX-License-Identifier: BSD-3-Clause
"""A small model, data that differs between ranks, and the values compared after training."""
import torch
import torch.distributed as dist
from torch import nn

WIDTH = 12  # a multiple of 2 and 4, unlike the 5 rows of the last layer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.blocks = nn.Sequential(Block(), Block())
        self.last = nn.Linear(WIDTH, 5)

    def forward(self, x):
        return self.last(self.blocks(x))


def batch(step=0, rank=None, rows=4):
    rank = dist.get_rank() if rank is None else rank
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(rows, WIDTH, generator=generator)


def train(model, optimizer=None, steps=3):
    """Losses of this rank."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(batch(step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def parameters(model):
    return [whole(p.detach()).clone() for p in model.parameters()]


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, 'full_tensor') else tensor


def ranks(at_least):
    """Marks a case that needs more ranks than two."""
    def mark(case):
        case.ranks = at_least
        return case
    return mark
