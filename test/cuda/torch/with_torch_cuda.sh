#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_torch_cuda.sh COMMAND...: runs COMMAND with PYTHON replaced by a Python that has torch for CUDA 13
# (TEST_TORCH_CUDA_PYTHON, TEST_TORCH_PYTHON or python3). Exit status 77 (skipped) if there is none.
find='
import importlib.util, os, re, sys
torch = importlib.util.find_spec("torch")
version = open(os.path.join(os.path.dirname(torch.origin), "version.py")).read() if torch else ""
sys.exit(not re.search("^cuda\\b.*13[.]", version, re.MULTILINE))'
for python in "${TEST_TORCH_CUDA_PYTHON:-}" "${TEST_TORCH_PYTHON:-}" python3; do
    [ -n "$python" ] && "$python" -c "$find" || continue
    for argument; do
        shift
        [ "$argument" != PYTHON ] || argument=$python
        set -- "$@" "$argument"
    done
    exec "$@"
done
echo 'no Python with torch for CUDA 13 found (PyPI: torch==2.14.1, 5.6 GB). Set TEST_TORCH_CUDA_PYTHON.'
exit 77
