"""
src/ch2_distributed_programming/process_group_3.py
"""

import torch.multiprocessing as mp
import torch.distributed as dist
import os


# Code executed concurrently in subprocesses
def fn(rank, world_size):
    # `rank` is provided automatically. `world_size` is passed as an argument.
    dist.init_process_group(backend="nccl", rank=rank, world_size=world_size)
    group = dist.new_group([_ for _ in range(world_size)])
    print(f"{group} - rank: {rank}")


# Main process
if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29500"
    os.environ["WORLD_SIZE"] = "4"

    mp.spawn(
        fn=fn,
        args=(4,),  # Pass world_size
        nprocs=4,  # Number of processes to create
        join=True,  # Whether to join the processes
        daemon=False,  # Whether the processes are daemons
        start_method="spawn",  # Set the start method
    )
