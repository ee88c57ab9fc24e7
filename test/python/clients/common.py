# SPDX-License-Identifier: BSD-3-Clause
"""The model and data of the clients, and the result line that run.py compares."""
import torch
import torch.distributed as dist
from torch import nn

ROWS, WIDTH = 32, 8


def model():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))


def dataset():
    generator = torch.Generator().manual_seed(7)
    return torch.utils.data.TensorDataset(torch.randn(ROWS, WIDTH, generator=generator),
                                          torch.randn(ROWS, 2, generator=generator))


def report(version, tensors):
    """RESULT rank version sum backend. 4 digits, because the order of sums may differ."""
    total = sum(float(tensor.detach().double().abs().sum()) for tensor in tensors)
    assert 0 < total < float('inf'), total
    print(f'RESULT rank {dist.get_rank()} of {dist.get_world_size()}, version {version}, values {total:.4g} '
          f'{dist.get_backend()}', flush=True)
