#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torch_wheels.sh DIR: makes DIR/python, a Python with torch for CPUs and the imports of torch's own
# tests. An existing one is kept. "+cpu" selects the build of 200 MB; if pip does not find it, this
# fails and downloads nothing, because the build for GPUs has gigabytes.
dir=$1
has_all='import torch.distributed, numpy, expecttest'
[ -x "$dir/python" ] && "$dir/python" -c "$has_all" 2>/dev/null && exit 0
rm -rf "$dir"
timeout 240 /usr/bin/python3 -m pip install -q --only-binary :all: --no-compile --disable-pip-version-check \
    --target "$dir/wheels" torch==2.13.0+cpu numpy expecttest || exit 1
# shellcheck disable=SC2016 # the variables are the script's own
printf '%s\n' '#!/bin/sh' 'wheels=$(dirname "$(readlink -f "$0")")/wheels' \
    'PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$wheels exec /usr/bin/python3 "$@"' >"$dir/python"
chmod +x "$dir/python"
# Compile the bytecode here, once: tests do not write it.
BACKEND=gloo WORLD_SIZE=2 "$dir/python" -c "$has_all; import torch.testing._internal.distributed.distributed_test"
