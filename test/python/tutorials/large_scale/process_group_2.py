"""
src/ch2_distributed_programming/process_group_2.py
"""

import torch.distributed as dist
import os


# These values are typically registered and used as environment variables.
os.environ["RANK"] = "0"
os.environ["LOCAL_RANK"] = "0"
os.environ["WORLD_SIZE"] = "1"

# Set the address required for communication.
os.environ["MASTER_ADDR"] = "localhost"  # Address to communicate with (usually localhost)
os.environ["MASTER_PORT"] = "29500"  # Port for communication (any available value is fine)

dist.init_process_group(backend="nccl", rank=0, world_size=1)
# Initialize the process group

process_group = dist.new_group([0])
# Create a process group that includes the process with rank 0

print(process_group)
