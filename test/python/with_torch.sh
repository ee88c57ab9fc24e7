#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_torch.sh RINGCOMM_RUN RANKS PROGRAM [ARGUMENT...]: runs PROGRAM by a Python that has torch:
# that of RINGCOMM_TEST_TORCH, or python3. Exit status 77 (skipped) if there is none.
run=$1 ranks=$2
shift 2
for python in "${RINGCOMM_TEST_TORCH:-}" python3; do
    [ -n "$python" ] && "$python" -c 'import torch.distributed' 2>/dev/null &&
        exec "$run" -n "$ranks" --bind none -- "$python" "$@"
done
echo 'no Python here has torch: RINGCOMM_TEST_TORCH names one'
exit 77
