#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""exports_test.py RINGCOMM_MAP: the package has every operation of the library, except those listed here with a
reason. Its constants are those of the library. Importing it imports neither numpy nor torch."""
import re
import sys

import ringcomm
from ringcomm import _core

# Functions that Python has in another form or not at all.
OTHERWISE = re.compile(
    r'rcm_(status_|last_error|version|dtype_|op_|store_|init|destroy|leave|abort|rank|size|local_|'
    r'world_rank|comm_|spawn|work_|mem_|setting_at|protocol_at|launch_at|transport_at|collective_at|'
    r'algorithm_at|unique_id_get|reduce_local|i?m?probe|improbe|mprobe|mrecv|i(s?send|recv)$|log_|'
    r'unique_id_free|queue_|.*_bytes$)')

names = re.findall(r'\b(rcm_\w+);', open(sys.argv[1], encoding='utf-8').read())
assert len(names) > 100, names
lacking = [name for name in names
           if not OTHERWISE.match(name) and not hasattr(_core, name[len('rcm_'):])]
assert not lacking, f'operations that the package lacks: {lacking}'
assert _core.STATUSES['OK'] == 0 and _core.STATUSES['ERR_TIMEOUT'] == -5
assert _core.DTYPES['float32'][1] == 4 and len(_core.DTYPES) == 21
assert 'all_to_all_v' in _core.COLLECTIVES
assert ringcomm.__version__ == _core.VERSION
assert not {'numpy', 'torch'} & set(sys.modules)
