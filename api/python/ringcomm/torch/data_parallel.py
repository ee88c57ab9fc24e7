# SPDX-License-Identifier: BSD-3-Clause
"""Replaces functions of DistributedDataParallel's C++ that fail with works and futures of Python."""
import functools

import torch
from torch.distributed import BuiltinCommHookType, Reducer
from torch.nn.parallel import DistributedDataParallel

from ringcomm.torch.operations import Operations
from ringcomm.torch.works import owner_of


def adapt():
    """Safe to repeat."""
    if not hasattr(Reducer._set_forward_pass_work_handle, '__wrapped__'):
        _own_in_reducers()
        _replace_builtin_hook()


def _own_in_reducers():
    """DistributedDataParallel.join gives a work to its Reducer and drops it."""
    original = Reducer._set_forward_pass_work_handle

    @functools.wraps(original)
    def set_forward_pass_work_handle(self, work, *more):
        original(self, owner_of(work), *more)

    Reducer._set_forward_pass_work_handle = set_forward_pass_work_handle


def _replace_builtin_hook():
    """The C++ hook FP16_COMPRESS reads a list of tensors from the future of a work. Python can only
    make futures with Python objects. torch's Python hook computes the same."""
    original = DistributedDataParallel._register_builtin_comm_hook

    @functools.wraps(original)
    def register_builtin_comm_hook(self, comm_hook_type):
        if comm_hook_type != BuiltinCommHookType.FP16_COMPRESS or not _is_ringcomm(self):
            return original(self, comm_hook_type)
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
        return self.register_comm_hook(self.process_group, fp16_compress_hook)

    DistributedDataParallel._register_builtin_comm_hook = register_builtin_comm_hook


def _is_ringcomm(model):
    return isinstance(model.process_group._get_backend(torch.device(model.device_type)), Operations)
