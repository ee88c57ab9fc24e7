# SPDX-License-Identifier: BSD-3-Clause
"""Keeps torch.compile from compiling this package. torch's C++ calls methods of groups and works while
a compiled model runs, and TorchDynamo would trace each of these calls as a separate program."""
import logging
import types

log = logging.getLogger('ringcomm.torch')


def keep_eager(*classes):
    """Marks the methods and the functions that they call. torch.compiler.disable would import
    TorchDynamo, which takes seconds. The marks are private to torch, so their absence is no
    error."""
    try:
        from torch._C._dynamo.eval_frame import (_FrameAction, _FrameExecStrategy,
                                                 set_code_exec_strategy)
        skip = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
        for one in classes:
            for method in vars(one).values():
                if isinstance(method, types.FunctionType):
                    set_code_exec_strategy(method.__code__, skip)
    except (ImportError, AttributeError, TypeError):
        log.debug('torch.compile may trace calls of ringcomm', exc_info=True)
