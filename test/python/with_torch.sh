#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_torch.sh COMMAND...: runs COMMAND with PYTHON replaced by a Python that has torch (TEST_TORCH_PYTHON or
# python3). Exit status 77 (skipped) if there is none.
find='import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'
for python in "${TEST_TORCH_PYTHON:-}" python3; do
    [ -n "$python" ] && "$python" -c "$find" || continue
    for argument; do
        shift
        [ "$argument" != PYTHON ] || argument=$python
        set -- "$@" "$argument"
    done
    exec "$@"
done
echo 'no Python with torch found. Set TEST_TORCH_PYTHON.'
exit 77
