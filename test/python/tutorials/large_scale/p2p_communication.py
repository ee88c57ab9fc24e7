"""
src/ch2_distributed_programming/p2p_communication.py
"""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
# Currently, NCCL does not support send/recv. (as of 2021/10/21)

if dist.get_rank() == 0:
    tensor = torch.randn(2, 2)
    dist.send(tensor, dst=1)

elif dist.get_rank() == 1:
    tensor = torch.zeros(2, 2)
    print(f"rank 1 before: {tensor}\n")
    dist.recv(tensor, src=0)
    print(f"rank 1 after: {tensor}\n")

else:
    raise RuntimeError("wrong rank")
