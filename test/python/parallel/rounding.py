# SPDX-License-Identifier: BSD-3-Clause
"""Gradients reduced in a short type, compared with exact means.

Backends may sum in different orders, so their results differ. The error of each has a bound: a conversion,
a division and every sum round by at most half a unit in the last place.
"""
import torch
import torch.distributed as dist


def exact_means(gradients):
    """Means of the ranks' gradients in float64; and means of their sizes, which bound every partial sum."""
    means = []
    for gradient in gradients:
        of_ranks = [torch.empty(gradient.shape, dtype=torch.float64) for _ in range(dist.get_world_size())]
        dist.all_gather(of_ranks, gradient.double())
        stacked = torch.stack(of_ranks)
        means.append((stacked.mean(0), stacked.abs().mean(0)))
    return means


def errors(found, means, reduced):
    """The largest error of each gradient, in units in the last place of the reduced type."""
    info, largest = torch.finfo(reduced), []
    bound = (dist.get_world_size() + 1) / 2 * 1.05  # rounded values are a little larger
    for gradient, (mean, size) in zip(found, means):
        units = ((gradient.double() - mean).abs() / (size.clamp(info.tiny) * info.eps)).max().item()
        assert units <= bound, f'{reduced}: error of {units} units, at most {bound}'
        largest.append(units)
    return largest


def no_worse(found, gloo):
    """An error text, or None. ringcomm may have one rounding more, because gloo may round less by chance."""
    worse = [f'result {i}: error of {mine} units, gloo has {its}'
             for i, (mine, its) in enumerate(zip(found, gloo)) if mine > its + 0.5]
    return '; '.join(worse) or None
