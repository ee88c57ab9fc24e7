# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm as a backend of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("ringcomm")

needs no import of this package: torch finds it by its entry points. A program that one may not edit
runs on it with RINGCOMM_TORCH_AS=gloo (or gloo,mpi): torch's look-up of these names then finds
ringcomm.

    autoload.py            what the entry points call
    group.py               how a process group is made, and the class of plain groups
    operations.py          every operation of torch on tensors
    works.py               works and futures
    data_parallel.py       what the C++ of DistributedDataParallel needs
    eager.py               what torch.compile must not trace
    object_collectives.py  objects by bytes, without tensors
"""
