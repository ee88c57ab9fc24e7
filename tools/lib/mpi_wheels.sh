#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpi_wheels.sh DIR: makes DIR with MPICH 5 (DIR/mpich: bin, lib), mpi4py built for the MPI ABI
# (DIR/site) and mpi4py's own tests (DIR/test). Existing ones are kept. The build takes minutes.
dir=$1
[ -f "$dir/ready" ] && exit 0
rm -rf "$dir"
mkdir -p "$dir/parts" || exit 1
dir=$(cd "$dir" && pwd)
pip='/usr/bin/python3 -m pip --disable-pip-version-check -q'
cd "$dir/parts" || exit 1
timeout 240 $pip download --no-deps mpich==5.0.2 &&
    timeout 240 $pip download --no-deps --no-binary mpi4py mpi4py==4.1.2 || exit 1
/usr/bin/python3 -m zipfile -e mpich-*.whl . && tar xzf mpi4py-*.tar.gz || exit 1
mv mpich-*.data/data ../mpich && chmod +x ../mpich/bin/* || exit 1
# Without optimization it compiles in a third of the time.
PATH=$dir/mpich/bin:$PATH MPICC=$dir/mpich/bin/mpicc_abi CFLAGS=-O0 timeout 900 $pip install \
    --no-deps --target "$dir/site" ./mpi4py-4.1.2/ || exit 1
mv mpi4py-4.1.2/test "$dir/test" && rm -rf "$dir/parts" && touch "$dir/ready"
