# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm as a backend of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("ringcomm")

needs no import of this package: torch finds it by its entry points. An unmodified program uses it
with RINGCOMM_TORCH_AS=gloo (or gloo,mpi): torch then finds ringcomm under these names.

    autoload.py            functions of the entry points
    group.py               creation of process groups, and the class of plain groups
    operations.py          every operation of torch on tensors
    works.py               works and futures
    data_parallel.py       adaptation of the C++ of DistributedDataParallel
    eager.py               exclusion from torch.compile
    object_collectives.py  objects by bytes, without tensors
"""
