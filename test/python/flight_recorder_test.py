#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch's flight recorder has an entry for each operation of a group that is a Backend.

torch attaches it to backends written in Python from 2.14 on; exit status 77 (skipped) before. The state stays
"scheduled", because a backend in Python cannot report the end of an operation to torch."""
import json
import sys
import warnings
from importlib.metadata import version

if [int(part) for part in version('torch').split('.')[:2]] < [2, 14]:  # importing torch takes seconds
    sys.exit(77)
warnings.simplefilter('ignore')
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

SIZES = {'all_reduce': 3, 'broadcast': 5}


def main():
    dist.init_process_group('cpu:ringcomm')
    dist.all_reduce(torch.ones(SIZES['all_reduce']))
    dist.broadcast(torch.ones(SIZES['broadcast']), 0, async_op=True).wait()
    from torch._C._distributed_c10d import _dump_fr_trace_json
    entries = json.loads(_dump_fr_trace_json(backend='ringcomm'))['entries']
    dist.destroy_process_group()
    found = [(entry['profiling_name'], entry['input_sizes'], entry['retired']) for entry in entries]
    for operation, size in SIZES.items():
        assert (f'ringcomm:{operation}', [[size]], True) in found, (operation, found)


main()
