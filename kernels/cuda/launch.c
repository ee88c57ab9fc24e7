/* SPDX-License-Identifier: BSD-3-Clause */
/* Selects the function of the GPUs' module for an operation, and its arguments: see
 * cuda_kernels.h. */
#include "cuda_kernels.h"
#include <string.h>
#include "pairs.h"
#include "variant.h"

#define BLOCK 256 /* the maximum that reduce.cu is compiled for */

/* Two blocks of 64 bytes per thread keep about 32 KB of each source in flight on a multiprocessor.
 * That is about its share of the memory's bandwidth times latency, and leaves capacity for the
 * program's kernels. Not measured on a GPU. */
#define BLOCKS_EACH  2
#define THREAD_BYTES 64

#define NAME(kernel, ...) [RCMI_CUDA_##kernel] = "rcmi_" #kernel,
const char *const rcmi_cuda_names[RCMI_CUDA_FUNCTIONS] = {RCMI_CUDA_FUNCTION_MAP(NAME)};

/* By type and operator number; 0 (copy) if the operator is not defined. */
#define SERVES(TYPE, op, kernel) [RCM_##TYPE][op] = RCMI_CUDA_##kernel,
static const uint8_t serving[RCMI_DTYPE_END][RCMI_OP_END] = {RCMI_PAIR_MAP(SERVES)};

_Static_assert(RCMI_CUDA_copy == 0 && RCMI_CUDA_FUNCTIONS <= UINT8_MAX, "numbers fit serving");
_Static_assert(RCMI_CUDA_MAX >= RCMI_REDUCE_MAX, "sources of an operation fit the arguments");

int rcmi_cuda_function_of(rcm_dtype dtype, rcm_op op) {
    if ((unsigned)dtype >= RCMI_DTYPE_END || (unsigned)op >= RCMI_OP_END)
        return -1;
    return serving[dtype][op] != RCMI_CUDA_copy ? serving[dtype][op] : -1;
}

/* A reduction of one source is a copy, unless the context changes the value. */
static bool operation_copies(const struct rcmi_operation *o) {
    return !o->reduces || (o->nsrcs == 1 && o->op != RCM_AVG && o->op != RCMI_OP_PREMUL_SUM);
}

static struct rcmi_cuda_args args_of(const struct rcmi_operation *o) {
    struct rcmi_cuda_args args = {.count = o->bytes, .nsrcs = o->nsrcs, .nresults = o->nresults};
    memcpy(args.results, o->results, o->nresults * sizeof o->results[0]);
    memcpy(args.srcs, o->srcs, o->nsrcs * sizeof o->srcs[0]);
    return args;
}

static void args_scale(struct rcmi_cuda_args *args, const struct rcmi_operation *operation) {
    const struct rcmi_reduce_context *context = &operation->context;
    memcpy(args->scale, context->scale, sizeof args->scale);
    if (context->scale_at)
        rcmi_scale_read(context->scale_at, operation->dtype, args->scale);
    args->scaled = context->scaled;
    args->divisor = context->divisor;
}

static unsigned grid_for(size_t bytes, unsigned multiprocessors) {
    const size_t wanted = (bytes + BLOCK * THREAD_BYTES - 1) / (BLOCK * THREAD_BYTES);
    const size_t most = (size_t)BLOCKS_EACH * (multiprocessors > 0 ? multiprocessors : 1);
    return (unsigned)(wanted < most ? wanted : most);
}

bool rcmi_cuda_launch_of(const struct rcmi_operation *operation, unsigned multiprocessors,
                         struct rcmi_cuda_launch *ret_launch) {
    const int reducing = rcmi_cuda_function_of(operation->dtype, operation->op);
    const bool copies = operation_copies(operation);
    if (!copies && reducing < 0)
        return false;
    ret_launch->function = copies ? RCMI_CUDA_copy : (enum rcmi_cuda_function)reducing;
    ret_launch->grid = grid_for(operation->bytes, multiprocessors);
    ret_launch->block = BLOCK;
    ret_launch->args = args_of(operation);
    if (copies)
        return true;
    ret_launch->args.count /= rcm_dtype_size(operation->dtype);
    args_scale(&ret_launch->args, operation);
    return true;
}
