# SPDX-License-Identifier: BSD-3-Clause
"""The exception of failed calls. Its text is the library's whole error text."""
from ringcomm import _core

STATUS_NAMES = {number: name for name, number in _core.STATUSES.items()}


class Error(RuntimeError):
    """A call of the library failed.

    status: name, such as 'ERR_PEER' (enum rcm_status without RCM_).
    origin: rank where the failure began, the dead one for ERR_PEER; -1: unknown.
    sequence: number of the collective, from 1; 0: none. operation: its name, or ''.
    """

    def __init__(self, status, text, origin=-1, sequence=0, operation=''):
        super().__init__(text)
        self.status = STATUS_NAMES.get(status, str(status))
        self.origin = origin
        self.sequence = sequence
        self.operation = operation


_core.set_error_type(Error)
