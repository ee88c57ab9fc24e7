"""
src/ch2_distributed_programming/process_group_1.py
"""

import torch.distributed as dist
# Typically abbreviated as `dist`

dist.init_process_group(backend="nccl", rank=0, world_size=1)
# Initialize the process group
# In this example, we use NCCL, which is the most commonly used backend.
# You can also specify 'mpi' or 'gloo' instead of 'nccl' for the backend.

process_group = dist.new_group([0])
# Create a process group that includes process with rank 0

print(process_group)
