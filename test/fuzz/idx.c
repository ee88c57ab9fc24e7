/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the IDX reader of the examples, plain and gzip. First byte: number of dimensions. */
#include "fuzz.h"
#include <string.h>
#include "idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct idx idx = {0};
    char path[32], error[256] = "";
    if (size == 0)
        return 0;
    int ndims = data[0] % 6;
    fuzz_file(data + 1, size - 1, path);
    if (idx_read(path, ndims, &idx, error, sizeof error) != 0) {
        fuzz_verdict = FUZZ_REFUSED;
        fuzz_require(error[0] != '\0', "an error has a sentence");
        return 0;
    }
    fuzz_verdict = FUZZ_ACCEPTED;
    size_t len = 1;
    unsigned sum = 0;
    for (int d = 0; d < ndims; d++)
        len *= idx.dims[d];
    fuzz_require(len == idx.len, "the length is the product of the sizes");
    for (size_t i = 0; i < len; i++)
        sum += idx.data[i];
    fuzz_require(sum <= 255 * len, "bytes can be read");
    idx_free(&idx);
    return 0;
}
