# SPDX-License-Identifier: BSD-3-Clause
"""ringcomm: collective communication between processes, on arrays in CPU memory.

    import numpy as np
    import ringcomm

    with ringcomm.init() as comm:               # rank, size, address: from the environment
        mine = np.full(4, comm.rank, np.float32)
        comm.all_reduce(mine)                   # in place; every rank has the sum

Start it with `python -m ringcomm.run -n 4 program.py`, torchrun, mpirun or srun.
`backend="ringcomm"` of torch.distributed is in `ringcomm.torch`. The library's log goes to `logging`
if the program has configured it, else to stderr; `ringcomm.logs.set_level` sets its level.
"""
import importlib
import sys

__all__ = ['Communicator', 'Error', 'init', 'logs', 'unique_id', '__version__']

__version__ = '0.1.0'


def _extension():
    try:
        return importlib.import_module('ringcomm._core')
    except ModuleNotFoundError as error:
        gil = getattr(sys, '_is_gil_enabled', lambda: True)()
        why = 'was not built for it' if gil else 'needs the GIL: this Python is a free-threaded one'
        raise ImportError(f"ringcomm's extension module {why} ({sys.executable}, Python "
                          f'{sys.version.split()[0]}). It needs an ordinary CPython from 3.11 on.') from error


def __getattr__(name):
    """Imports on first use, so that `import torch` costs nothing (see torch/autoload.py)."""
    if name == '_core':
        return _extension()
    if name in ('Communicator', 'init', 'unique_id'):
        from ringcomm import communicator
        return getattr(communicator, name)
    if name == 'logs':
        import ringcomm.logs
        return ringcomm.logs
    if name == 'Error':
        from ringcomm.errors import Error
        return Error
    raise AttributeError(f'module ringcomm has no attribute {name}')
