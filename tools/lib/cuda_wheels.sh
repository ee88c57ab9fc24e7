#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cuda_wheels.sh DIR: makes DIR/nvcc, a CUDA compiler from wheels that pip installs in DIR (about 250
# MB). An existing compiler there is kept. For machines without a toolkit.
dir=$1
[ -x "$dir/nvcc" ] && "$dir/nvcc" --version >/dev/null 2>&1 && exit 0
rm -rf "$dir"
/usr/bin/python3 -m pip install -q --no-deps --disable-pip-version-check --target "$dir/wheels" \
    nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 \
    nvidia-cuda-cccl==13.0.85 || exit 1
printf '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/wheels/nvidia/cu13/bin/nvcc" "$@"\n' >"$dir/nvcc"
chmod +x "$dir/nvcc" "$dir/wheels/nvidia/cu13/bin/"* "$dir/wheels/nvidia/cu13/nvvm/bin/"*
"$dir/nvcc" --version
