/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of ringcomm-bench:
 *
 *      bench.c              main, and starting ranks
 *      bench_options.c      the command line (bench_arguments.c: single arguments)
 *      bench_rank.c         one rank from init to destroy
 *      bench_run.c          the measurement of one point: one collective at one size
 *      bench_memory.c       its buffers (bench_shadow.c: host copies of device buffers)
 *      bench_data.c         the numbers that are sent and checked (bench_values.c: by type)
 *      bench_kernel.c       the kernels without ranks (bench_kernel_cuda.c: those of GPUs)
 */
#ifndef RINGCOMM_TOOLS_BENCH_H
#define RINGCOMM_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

enum bench_what {
    /* In the order of rcm_collective_at. */
    BENCH_ALL_REDUCE,
    BENCH_BROADCAST,
    BENCH_BARRIER,
    BENCH_REDUCE,
    BENCH_SCATTER,
    BENCH_GATHER,
    BENCH_ALL_GATHER,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_TO_ALL,
    BENCH_SCAN,
    BENCH_EXSCAN,
    BENCH_SCATTER_V,
    BENCH_GATHER_V,
    BENCH_ALL_GATHER_V,
    BENCH_REDUCE_SCATTER_V,
    BENCH_ALL_TO_ALL_V,
    BENCH_SENDRECV, /* this and the following are not collectives */
    BENCH_NWHAT,    /* number of the above; on the command line: all of them */
    BENCH_KERNEL,
};

#define BENCH_MAX_SIZES 64

struct rcmi_device;

struct bench_options {
    enum bench_what what;
    int nranks; /* to start; 0: a launcher has started this process */
    bool threads;
    int64_t min_bytes, max_bytes;
    int64_t factor;
    int64_t sizes[BENCH_MAX_SIZES]; /* instead of these three, if nsizes > 0 */
    int nsizes;
    int64_t calls;  /* operations per iteration, back to back */
    int64_t iters;  /* 0: by time */
    int64_t warmup; /* -1: by size */
    rcm_dtype dtype;
    rcm_op op;
    int root;
    const char *transport; /* NULL: from the environment */
    const char *algorithm; /* NULL: chosen by the library */
    const char *device;    /* of --memory cuda; NULL: from the environment */
    bool in_place;
    bool check;
    bool check_last; /* compare the last iteration only, outside of all measured time */
    bool fresh;      /* write the input anew before every iteration */
    bool registered; /* buffers from rcm_mem_alloc */
    bool cuda;       /* buffers in memory of the rank's device */
    bool together;   /* ranks begin an iteration at a common clock time, not after a barrier */
    bool counters;   /* print them at the end */
    bool asleep;     /* ranks sleep until a common clock time; an iteration's time is its span */
    bool flip;       /* self-test: flip one bit of one result per size */
    size_t offset;
    const char *neutral; /* file of the barrier before each iteration; NULL: rcm_barrier */
    const char *csv, *json, *plot;
    int64_t timeout_ms;
    char command[1024]; /* as typed, for the notes */
};

/* Fills *options from the command line. Exits with status 2 and an error if it is not valid, and
 * with 0 after --help and --version. */
void bench_parse(int argc, char **argv, struct bench_options *options);

/* "all_reduce". */
const char *bench_what_name(enum bench_what what);
/* Describes its buffers. sendrecv is like a collective of one block, with .collective 0. */
struct rcm_collective_info bench_what_info(enum bench_what what);
/* "all_reduce, broadcast, ..., sendrecv" */
const char *bench_what_names(void);

/* The scale of premul_sum on that rank (bench_values.c). */
struct bench_scale {
    double re, im;
};
struct bench_scale bench_scale_of(int rank, bool is_complex);

/* ---- One point ----------------------------------------------------------------------------- */

struct bench_point {
    enum bench_what what;
    struct rcm_collective_info info; /* of what */
    rcm_dtype dtype;
    rcm_op op;
    size_t count; /* elements of a block, on average if blocks are uneven */
    size_t bytes; /* of the larger buffer */
    int root;
    int nranks;
    bool in_place;
};

struct bench_result { /* complete on rank 0 only */
    int64_t iters;    /* without those that --together and --asleep discard */
    double min_us, median_us, p99_us;
    double span_us; /* median; NAN if the ranks have no common clock */
    int64_t errors; /* wrong elements on all ranks; -1: not checked */
};

/* A barrier that is not the library's, in a file that the ranks of a machine share
 * (bench_neutral.c). The file is empty, or filled with zeros, when the first rank opens it. NULL:
 * an error is reported.
 */
struct bench_neutral *bench_neutral_open(const char *path);
void bench_neutral_close(struct bench_neutral *neutral); /* NULL is a no-op */
/* Spins until all ranks are there; false: the deadline passed. */
bool bench_neutral_wait(struct bench_neutral *neutral, int nranks, int64_t deadline_ns);

/* The state of a rank. */
struct bench_rank {
    const struct bench_options *options;
    rcm_comm *comm;
    int rank, nranks;
    struct bench_neutral *neutral; /* of --neutral */
    int64_t deadline_ns;           /* of the whole run */
    int64_t slot_ns;               /* --asleep: start of this point's first iteration, */
    int64_t period_ns;             /* and the time from one start to the next */
    void *send_mem, *recv_mem;     /* allocated, page-aligned */
    void *send, *recv;             /* --offset bytes into them; the same pointer if in place */
    int64_t *times;                /* 2 per iteration: in, out */
    int64_t *peer_times;           /* the same of another rank, at rank 0 */
    size_t max_iters;
    void *shadow;               /* --memory cuda: host memory to write and read data, */
    struct rcmi_device *device; /* and the device that copies it */
    rcm_op op;                  /* of the options, or created for it */
    size_t *counts;             /* elements of this point's blocks, one per rank */
};

/* Allocates buffers of max_bytes; RCM_ERR_NOMEM. Undo with bench_free. */
rcm_status bench_alloc(struct bench_rank *rank, size_t max_bytes);
void bench_free(struct bench_rank *rank);

/* Warms up, runs, checks and gathers. Collective. Prints errors to stderr. */
rcm_status bench_measure(struct bench_rank *rank, const struct bench_point *point,
                         struct bench_result *ret_result);

/* ---- Buffers (bench_memory.c, bench_shadow.c) ------------------------------------------------ */

/* NULL after an error, which is printed unless memory is exhausted. */
void *bench_buffer_get(const struct bench_rank *rank, size_t len);
void bench_buffer_put(const struct bench_rank *rank, void *memory);
/* Opens the shadow for buffers of len bytes; `buffer` is one of them. False after an error, which
 * is printed to stderr. */
bool bench_shadow_open(struct bench_rank *rank, const void *buffer, size_t len);
void bench_shadow_close(struct bench_rank *rank);
/* The device, as "device 0 (GPU-...)". */
const char *bench_shadow_label(const struct bench_rank *rank);
/* The memory in which the CPU writes and reads a buffer's data: the buffer, or the shadow. */
void *bench_shadow(const struct bench_rank *rank, void *buffer);
/* Copy the shadow to a buffer, and a buffer to the shadow. */
void bench_upload(const struct bench_rank *rank, void *buffer, size_t bytes);
void bench_download(const struct bench_rank *rank, const void *buffer, size_t bytes);

/* ---- Data ---------------------------------------------------------------------------------- */

/* Blocks of the larger buffer. */
size_t bench_blocks(const struct rcm_collective_info *info, int nranks);
/* Elements of block i of a rank's larger buffer, and elements before that block. Uneven blocks grow
 * with i, from almost 0 to almost twice `count`. Those of all-to-all grow with the sum of the two
 * ranks modulo the number of ranks. */
size_t bench_block_count(const struct bench_point *point, int rank, int i);
size_t bench_block_first(const struct bench_point *point, int rank, int i);
/* Elements that a rank sends, and elements that it receives. */
size_t bench_in_count(const struct bench_point *point, int rank);
size_t bench_out_count(const struct bench_point *point, int rank);

/* Writes the input of `rank` in this iteration. Elements differ by rank, position and iteration. */
void bench_fill(const struct bench_point *point, int rank, uint64_t iteration, void *dst);

/* Overwrites dst with a pattern that differs from every result. */
void bench_poison(const struct bench_point *point, void *dst);

/* Whether `rank` has a result, and whether it has an input. */
bool bench_has_result(const struct bench_point *point, int rank);
bool bench_has_input(const struct bench_point *point, int rank);

/* Whether the collective supports the operator. avg requires that all ranks contribute. */
bool bench_op_fits(const struct rcm_collective_info *info, rcm_op op);

/* Number of elements of `got` that differ from the expected result of `rank`. */
size_t bench_count_wrong(const struct bench_point *point, int rank, uint64_t iteration,
                         const void *got);

/* ---- Operators (bench_op.c) ---------------------------------------------------------------- */

/* Operators that each rank creates. Options, points and the functions below accept them too. */
enum { BENCH_PREMUL_SUM = -1, BENCH_USER = -2 };

const char *bench_op_name(rcm_op op);
/* The i-th operator; 0 past the last. */
rcm_op bench_op_at(size_t i);
bool bench_op_find(const char *name, rcm_op *ret_op);
/* The reason why it is not defined for the type, valid until the next call; NULL: it is defined. */
const char *bench_op_lack(rcm_op op, rcm_dtype dtype);
/* Opens the operator on that rank: *ret_op is for calls. Undo with bench_op_close. */
rcm_status bench_op_open(rcm_op op, rcm_dtype dtype, int rank, rcm_op *ret_op);
void bench_op_close(rcm_op op);

/* ---- The programs -------------------------------------------------------------------------- */

/* Runs one rank. rank -1, store NULL: from the environment. Returns an exit status. */
int bench_rank_main(const struct bench_options *options, int rank, rcm_store *store);

/* ringcomm-bench kernel. Return an exit status. */
int bench_kernel_main(const struct bench_options *options);
int bench_kernel_cuda_main(const struct bench_options *options); /* --memory cuda */

/* Notes host, processor, kernel and command line in the report. */
struct report;
void bench_note_machine(struct report *report, const struct bench_options *options);

/* bench_counters.c: --counters. Collective. */
rcm_status bench_counters(const struct bench_rank *rank);

#endif
