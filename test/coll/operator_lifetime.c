/* SPDX-License-Identifier: BSD-3-Clause */
/* The lifetime of operators: rejected calls, works that hold operators, and mismatches between
 * ranks. */
#include "operators.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int refuses(const char *what, rcm_status status, const char *text) {
    int errors = 0;
    CHECK(errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), text),
          "%s: %s, \"%s\" is not in \"%s\"", what, rcm_status_name(status), text, rcm_last_error());
    return errors;
}

static int check_refusals(rcm_comm *comm) {
    rcm_op op, other;
    double x[2] = {1, 2}, y[2];
    int errors =
        refuses("int", rcm_op_create_premul_sum(1, 0, RCM_INT32, &op), "premul_sum of int");
    errors +=
        refuses("pair", rcm_op_create_premul_sum(1, 0, RCM_INT32_INT32, &op), "premul_sum of");
    errors += refuses("type", rcm_op_create_premul_sum(1, 0, (rcm_dtype)99, &op), "dtype 99");
    errors += refuses("real", rcm_op_create_premul_sum(1, 2, RCM_FLOAT64, &op), "imaginary is 2");
    errors += refuses("NULL", rcm_op_create_premul_sum(1, 0, RCM_FLOAT64, NULL), "ret_op is NULL");
    errors += refuses("sum", rcm_op_free(RCM_SUM), "op 1 is sum");
    errors += refuses("none", rcm_op_free(77), "op 77 is not an operator");
    errors += refuses("never", rcm_op_free(2000000000), "op 2000000000 is not an operator");
    CHECK(errors, rcm_op_create_premul_sum(2, 0, RCM_FLOAT64, &op) == RCM_OK, "create");
    CHECK(errors, op > 256 && strcmp(rcm_op_name(op), "premul_sum") == 0, "op %d", (int)op);
    CHECK(errors, rcm_op_defined(op, RCM_FLOAT64) == RCM_OK, "%s", rcm_last_error());
    errors += refuses("other type", rcm_op_defined(op, RCM_FLOAT32), "was created for float64");
    errors += refuses("no type", rcm_op_defined(op, (rcm_dtype)99), "dtype 99 is not a type");
    errors +=
        refuses("local", rcm_reduce_local(x, y, 1, RCM_FLOAT64, op), "no meaning on a single rank");
    errors += refuses("call", rcm_all_reduce(comm, x, y, 1, RCM_FLOAT32, op, NULL, NULL),
                      "was created for float64, not for float32");
    CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    errors += refuses("twice", rcm_op_free(op), "was freed");
    errors += refuses("freed", rcm_scan(comm, x, y, 1, RCM_FLOAT64, op, NULL, NULL), "was freed");
    CHECK(errors, strcmp(rcm_op_name(op), "?") == 0, "name %s", rcm_op_name(op));
    CHECK(errors, rcm_op_create_premul_sum(2, 0, RCM_FLOAT64, &other) == RCM_OK && other != op,
          "a freed number is given again");
    errors += refuses("freed", rcm_all_reduce(comm, x, y, 1, RCM_FLOAT64, op, NULL, NULL), "freed");
    CHECK(errors, rcm_op_free(other) == RCM_OK, "free: %s", rcm_last_error());
    return errors;
}

/* An operator that differs only in its scale is another one, even with the same plan and
 * buffers. */
static int check_again(rcm_comm *comm) {
    int errors = 0;
    for (int i = 0; i < 40; i++) {
        double x = i, sum = 0;
        rcm_op op;
        CHECK(errors, rcm_op_create_premul_sum(i % 7, 0, RCM_FLOAT64, &op) == RCM_OK, "create");
        CHECK(errors,
              rcm_all_reduce(comm, &x, &sum, 1, RCM_FLOAT64, op, NULL, NULL) == RCM_OK &&
                  sum == rcm_size(comm) * i * (i % 7),
              "scale %d: %g", i % 7, sum);
        CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    }
    return errors;
}

/* An operator whose scale is in memory reads it for each operation. */
static int check_scale_in_memory(rcm_comm *comm) {
    static const struct {
        rcm_dtype dtype;
        uint16_t one, scale, product; /* 1, 2.5 and 2.5 as bits */
    } shorts[] = {{RCM_FLOAT16, 0x3c00, 0x4100, 0x4100},
                  {RCM_BFLOAT16, 0x3f80, 0x4020, 0x4020},
                  {RCM_FLOAT8_E4M3FN, 0x38, 0x42, 0x42},
                  {RCM_FLOAT8_E5M2, 0x3c, 0x41, 0x41}};
    double x = 3, sum = 0, scale = 0;
    rcm_op op;
    int errors =
        refuses("no scale", rcm_op_create_premul_sum_from(NULL, RCM_FLOAT64, &op), "scale");
    errors +=
        refuses("type", rcm_op_create_premul_sum_from(&x, RCM_INT8, &op), "premul_sum of int8");
    CHECK(errors, rcm_op_create_premul_sum_from(&scale, RCM_FLOAT64, &op) == RCM_OK, "create");
    for (scale = -2; scale < 3; scale++) {
        CHECK(errors,
              rcm_all_reduce(comm, &x, &sum, 1, RCM_FLOAT64, op, NULL, NULL) == RCM_OK &&
                  sum == rcm_size(comm) * 3 * scale,
              "scale %g: %g", scale, sum);
    }
    CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    for (size_t i = 0; i < sizeof shorts / sizeof shorts[0]; i++) {
        uint16_t got = 0;
        CHECK(errors,
              rcm_op_create_premul_sum_from(&shorts[i].scale, shorts[i].dtype, &op) == RCM_OK &&
                  rcm_scan(comm, &shorts[i].one, &got, 1, shorts[i].dtype, op, NULL, NULL) ==
                      RCM_OK &&
                  rcm_op_free(op) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, rcm_rank(comm) > 0 || got == shorts[i].product, "%s: 0x%x",
              rcm_dtype_name(shorts[i].dtype), got);
    }
    return errors;
}

/* Works hold their operators: many works, each with its own. */
static int check_held(rcm_comm *comm) {
    enum { N = 100 };
    double x[N], sums[N];
    rcm_work *works[N];
    int errors = 0;
    for (int i = 0; i < N; i++) {
        rcm_op op;
        x[i] = i;
        CHECK(errors, rcm_op_create_premul_sum(i + 1, 0, RCM_FLOAT64, &op) == RCM_OK, "create");
        CHECK(errors,
              rcm_all_reduce(comm, &x[i], &sums[i], 1, RCM_FLOAT64, op, NULL, &works[i]) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    }
    for (int i = 0; i < N; i++) {
        CHECK(errors, rcm_work_wait(works[i], -1) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, sums[i] == rcm_size(comm) * i * (i + 1.0), "%d: %g", i, sums[i]);
        rcm_work_free(works[i]);
    }
    return errors;
}

/* Works of several parts hold their operators too, also persistent ones. */
static int check_coalesced(rcm_comm *comm) {
    float x[2] = {1, 2}, sums[2] = {0, 0};
    const struct rcm_part parts[] = {{&x[0], &sums[0], 1, RCM_FLOAT32},
                                     {&x[1], &sums[1], 1, RCM_FLOAT32}};
    struct rcm_call call = RCM_CALL_INIT;
    const float size = (float)rcm_size(comm);
    int errors = 0;
    for (int i = 0; i < 2; i++) {
        rcm_work *work = NULL;
        rcm_op op;
        call.flags = i ? RCM_PERSISTENT : 0;
        CHECK(errors, rcm_op_create_premul_sum(3, 0, RCM_FLOAT32, &op) == RCM_OK, "create");
        CHECK(errors, rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, op, 0, &call, &work) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
        for (int again = 0; again < 1 + i; again++) {
            if (i) /* a plain work is already running */
                x[0] += 1;
            CHECK(errors,
                  (!i || rcm_work_start(work) == RCM_OK) && rcm_work_wait(work, -1) == RCM_OK, "%s",
                  rcm_last_error());
            CHECK(errors, sums[1] == 6 * size && (!i || sums[0] == 3 * size * x[0]), "%g %g",
                  (double)sums[0], (double)sums[1]);
        }
        rcm_work_free(work);
    }
    return errors;
}

/* Returns the second operand. */
static void second(const void *in, void *inout, size_t count, rcm_dtype dtype, void *context) {
    *(size_t *)context += count * rcm_dtype_size(dtype);
    (void)in;
    (void)inout;
}

static int check_function_arguments(void) {
    rcm_op op;
    int errors = refuses("function", rcm_op_create(NULL, NULL, 0, "x", RCM_ANY_DTYPE, &op),
                         "function is NULL");
    errors += refuses("flags", rcm_op_create(second, NULL, 6, "x", RCM_ANY_DTYPE, &op), "is 0x6");
    errors +=
        refuses("no name", rcm_op_create(second, NULL, 0, NULL, RCM_INT8, &op), "name is NUL");
    errors += refuses("empty", rcm_op_create(second, NULL, 0, "", RCM_INT8, &op), "has 0 bytes");
    errors +=
        refuses("long", rcm_op_create(second, NULL, 0, "123456789012345678901234", RCM_INT8, &op),
                "has 24 bytes. Use 1 to 23");
    errors += refuses("control", rcm_op_create(second, NULL, 0, "a\nb", RCM_INT8, &op), "0x0a");
    errors += refuses("type", rcm_op_create(second, NULL, 0, "x", (rcm_dtype)77, &op), "dtype 77");
    return errors +
           refuses("NULL", rcm_op_create(second, NULL, 0, "x", RCM_INT8, NULL), "ret_op is NULL");
}

static int check_function(rcm_comm *comm) {
    rcm_op op;
    size_t calls = 0;
    int16_t x[3] = {1, 2, 3}, y[3] = {4, 5, 6};
    struct rcm_call call = RCM_CALL_INIT;
    int errors = check_function_arguments();
    CHECK(errors, rcm_op_create(second, &calls, 0, "2nd of two", RCM_INT16, &op) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, strcmp(rcm_op_name(op), "2nd of two") == 0, "name %s", rcm_op_name(op));
    errors += refuses("other", rcm_op_defined(op, RCM_UINT16), "was created for int16");
    CHECK(errors, rcm_reduce_local(x, y, 3, RCM_INT16, op) == RCM_OK && calls == 6 && y[0] == 4,
          "reduce_local: %zu bytes", calls);
    call.algorithm = "ring";
    const rcm_status status = rcm_all_reduce(comm, x, y, 3, RCM_INT16, op, &call, NULL);
    CHECK(errors,
          status == RCM_ERR_UNSUPPORTED &&
              strstr(rcm_last_error(),
                     "2nd of two is not commutative, but all_reduce algorithm ring"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_op_free(op) == RCM_OK, "free: %s", rcm_last_error());
    return errors;
}

int operators_check_life(rcm_comm *comm) {
    return check_refusals(comm) + check_function(comm) + check_again(comm) +
           check_scale_in_memory(comm) + check_held(comm) + check_coalesced(comm);
}

/* ---- Mismatches ---------------------------------------------------------------------------- */

/* Rank 0 has another operator than the others. All get a mismatch with both names. */
static int check_mismatch(rcm_comm *world, rcm_op own, const char *first, const char *then) {
    rcm_comm *comm;
    int errors = 0;
    float x = 1, y;
    CHECK(errors, rcm_comm_duplicate(world, NULL, &comm) == RCM_OK, "%s", rcm_last_error());
    rcm_status status = rcm_all_reduce(comm, &x, &y, 1, RCM_FLOAT32, own, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    CHECK(errors,
          status == RCM_ERR_MISMATCH && strstr(rcm_last_error(), first) &&
              strstr(rcm_last_error(), then),
          "\"%s\" or \"%s\" is not in: %s", first, then, rcm_last_error());
    (void)!rcm_destroy(comm);
    return errors;
}

int operators_check_mismatches(rcm_comm *comm) {
    const bool odd = rcm_rank(comm) == 0;
    size_t calls = 0;
    rcm_op scaled = 0, some = 0, flagged = 0;
    int errors = 0;
    CHECK(errors,
          rcm_op_create_premul_sum(2, 0, RCM_FLOAT32, &scaled) == RCM_OK &&
              rcm_op_create(second, &calls, 0, odd ? "mine" : "theirs", RCM_FLOAT32, &some) ==
                  RCM_OK &&
              rcm_op_create(second, &calls, odd, "flagged", RCM_FLOAT32, &flagged) == RCM_OK,
          "%s", rcm_last_error());
    errors += check_mismatch(comm, odd ? scaled : RCM_SUM, "float32, premul_sum", "float32, sum");
    errors += check_mismatch(comm, some, "float32, mine", "float32, theirs");
    errors += check_mismatch(comm, flagged, "float32, flagged",
                             "flagged is commutative on rank 0, but not on rank");
    CHECK(errors,
          rcm_op_free(scaled) == RCM_OK && rcm_op_free(some) == RCM_OK &&
              rcm_op_free(flagged) == RCM_OK,
          "%s", rcm_last_error());
    return errors;
}
