/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory operations on streams: calls of the driver API. */
#include "fake_stream.h"
#include <stdlib.h>
#include <string.h>

static CUresult check_memop(const CUstreamBatchMemOpParams *p) {
    bool wide = false;
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        wide = true; /* fall through */
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: {
        struct mem m;
        bool ok = fake_find(p->waitValue.address, &m) && m.kind != MEM_MANAGED &&
                  p->waitValue.address % (wide ? 8 : 4) == 0 &&
                  fake_is_device(p->waitValue.address, wide ? 8 : 4) &&
                  fake_reachable(fake_current(), p->waitValue.address, wide ? 8 : 4);
        return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult submit_memops(CUstream stream, unsigned n, const CUstreamBatchMemOpParams *p) {
    if (n == 0 || n > 255)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        CUresult r = check_memop(&p[i]);
        if (r)
            return r;
    }
    struct op *op = fake_op(OP_MEMOPS);
    op->memops = malloc(n * sizeof *p);
    memcpy(op->memops, p, n * sizeof *p);
    op->nmemops = n;
    return fake_submit(stream, op);
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *p,
                                    unsigned flags) {
    ENTER(true);
    return flags ? CUDA_ERROR_INVALID_VALUE : submit_memops(stream, n, p);
}

static CUresult one_memop(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr addr,
                          uint64_t value, unsigned flags) {
    CUstreamBatchMemOpParams p;
    memset(&p, 0, sizeof p);
    p.waitValue.operation = type;
    p.waitValue.address = addr;
    p.waitValue.value64 = value;
    p.waitValue.flags = flags;
    return submit_memops(stream, 1, &p);
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream s, CUdeviceptr addr, cuuint32_t value,
                                      unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64(CUstream s, CUdeviceptr addr, cuuint64_t value,
                                      unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream s, CUdeviceptr addr, cuuint32_t value,
                                     unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64(CUstream s, CUdeviceptr addr, cuuint64_t value,
                                     unsigned flags) {
    ENTER(true);
    return one_memop(s, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
