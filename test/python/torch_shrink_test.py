#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch_shrink_test.py well|dead|stuck: shrink_group without the last of three ranks.

torch supports it for backends written in Python from 2.14 on; exit status 77 (skipped) before."""
import datetime
import os
import signal
import sys
import time
import warnings
from importlib.metadata import version

if [int(part) for part in version('torch').split('.')[:2]] < [2, 14]:  # importing torch takes seconds
    sys.exit(77)
warnings.simplefilter('ignore')
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

PAUSE_S = 1


def leave_out(victim):
    dist.shrink_group([victim])
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == victim == dist.get_world_size(), tensor
    dist.destroy_process_group()


def main():
    case = sys.argv[1]
    dist.init_process_group('cpu:ringcomm', timeout=datetime.timedelta(seconds=60))
    me, victim = dist.get_rank(), dist.get_world_size() - 1
    dist.barrier()
    if me != victim:
        time.sleep(PAUSE_S)
        leave_out(victim)
        return
    if case == 'dead':
        os._exit(0)
    if case == 'stuck':
        time.sleep(4 * PAUSE_S)  # calls nothing meanwhile
    os._exit(0 if case == 'stuck' else _wait_for_word())


def _wait_for_word():
    """A well rank that is excluded gets an error in its blocking call."""
    signal.alarm(30)
    try:
        dist.recv(torch.ones(1), 0)
    except dist.DistBackendError as error:
        return 0 if 'shrink' in str(error) or 'left' in str(error) else 1
    return 1


main()
