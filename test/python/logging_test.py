#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library's log lines go to `logging` if the program has a handler, else to stderr."""
import logging
import os
import subprocess
import sys
import tempfile

import ringcomm

UNCONFIGURED = 'import ringcomm; ringcomm.init(0, 1).destroy()'


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def one_rank(records):
    """A world of one rank. All its lines up to level debug go to the handler."""
    ringcomm.logs.set_level('debug')
    with ringcomm.init(0, 1) as comm:
        comm.all_reduce(bytearray(4))
    ringcomm.logs.flush()
    assert records.records, 'no record'
    assert {record.name for record in records.records} == {'ringcomm'}
    assert {record.rank for record in records.records} <= {-1, 0}
    assert {record.levelno for record in records.records} <= {logging.DEBUG, logging.INFO}
    records.records.clear()


def refused_level():
    try:
        ringcomm.logs.set_level('loud')
    except ValueError as error:
        assert "'loud'" in str(error)
        return
    raise AssertionError('no ValueError')


def in_child(records):
    pid = os.fork()
    if pid == 0:
        one_rank(records)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def stderr_of_unconfigured(level):
    ended = subprocess.run([sys.executable, '-c', UNCONFIGURED], capture_output=True, text=True,
                           env={**os.environ, 'RINGCOMM_LOG': level}, timeout=60, check=True)
    return ended.stderr


def main():
    records = Records()
    logging.getLogger().addHandler(records)
    logging.getLogger().setLevel(logging.DEBUG)
    with tempfile.TemporaryFile('w+') as errors:
        kept = os.dup(2)
        os.dup2(errors.fileno(), 2)
        try:
            one_rank(records)
            one_rank(records)  # follows the log again
            in_child(records)
            one_rank(records)
        finally:
            os.dup2(kept, 2)
        errors.seek(0)
        found = errors.read()
    assert found == '', f'on stderr: {found}'
    refused_level()
    assert stderr_of_unconfigured('debug').startswith('ringcomm ')
    assert stderr_of_unconfigured('warn') == ''


main()
