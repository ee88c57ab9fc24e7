#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_torch.sh COMMAND...: runs COMMAND with PYTHON replaced by a Python that has torch: that of
# RINGCOMM_TEST_TORCH, or python3. Exit status 77 (skipped) if there is none.
for python in "${RINGCOMM_TEST_TORCH:-}" python3; do
    [ -n "$python" ] && "$python" -c 'import torch.distributed' 2>/dev/null || continue
    for argument; do
        shift
        [ "$argument" != PYTHON ] || argument=$python
        set -- "$@" "$argument"
    done
    exec "$@"
done
echo 'no Python here has torch: RINGCOMM_TEST_TORCH names one'
exit 77
