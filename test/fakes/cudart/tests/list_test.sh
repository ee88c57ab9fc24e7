#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# list_test.sh PROGRAM: FAKECUDART_MISSING=1 lists each unsupported function that PROGRAM calls once, and 0 lists none.
list() {
    FAKECUDART_MISSING=$1 "$program" unsupported 2>&1 | sed -n 's/^fake_cudart\[[0-9]*\]: //p' | tr '\n' ';'
}
program=$1
[ "$(list 0)" = '' ] || exit 1
[ "$(list 1)" = 'cudaMallocArray is not supported;cudaDeviceReset is not supported;' ]
