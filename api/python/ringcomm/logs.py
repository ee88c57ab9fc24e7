# SPDX-License-Identifier: BSD-3-Clause
"""The library's log in `logging`, as logger "ringcomm".

Lines go to `logging` once the program has configured it: when the first communicator is made, the
logger or one of its parents has a handler. Else they go to stderr. `extra` has the rank.
"""
import atexit
import logging
import multiprocessing.util
import os
import threading

from ringcomm import _core

LEVELS = ('error', 'warn', 'info', 'debug')
NUMBERS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
WAIT_MS = 1000

logger = logging.getLogger('ringcomm')
_process = None  # pid of the process whose thread takes lines


def set_level(level: str) -> None:
    """Logs lines of this level and of more important levels: error, warn, info or debug."""
    if level not in LEVELS:
        raise ValueError(f'level {level!r} is none of {", ".join(LEVELS)}')
    _core.log_level(LEVELS.index(level))


def _pass_on(line) -> None:
    level, rank, text = line
    head = f'[rank {rank}] ' if rank >= 0 else ''
    logger.log(NUMBERS[level], '%s%s', head, text, extra={'rank': rank})


def _run() -> None:
    while _process == os.getpid():
        line = _core.log_next(WAIT_MS)
        if line is not None:
            _pass_on(line)


def flush() -> None:
    """Passes the remaining lines on. Later lines go to stderr."""
    global _process
    if _process != os.getpid():
        return
    _process = None
    _core.log_collect(False)
    while (line := _core.log_next(0)) is not None:
        _pass_on(line)


def follow() -> None:
    """Called when a communicator is made."""
    global _process
    if _process == os.getpid() or not logger.hasHandlers():
        return
    _process = os.getpid()
    _core.log_collect(True)
    threading.Thread(target=_run, name='ringcomm-log', daemon=True).start()
    atexit.register(flush)
    multiprocessing.util.Finalize(None, flush, exitpriority=-1)  # children of fork skip atexit
