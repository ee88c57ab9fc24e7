/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory that the program frees before it is deregistered. The emulator reuses a freed
 * address at once. Calls are rejected, nothing is sent, and the communicator still works.
 *
 *     freed_while_registered checked     RINGCOMM_CHECK_MEMORY is 1
 *     freed_while_registered unchecked   what is detected without it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "mapped_memory.h"
#include "program_buffers.h"
#include "ranks.h"

enum { COUNT = 50000, BYTES = COUNT * 4, VALUE = 3 };

static const struct rcm_call now = {.size = sizeof now, .flags = RCM_NO_STREAM};

static int refused(const char *what, rcm_status status, const char *words) {
    int errors = 0;
    CHECK(errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), words),
          "%s: %s (%s), not \"%s\"", what, rcm_status_name(status), rcm_last_error(), words);
    return errors;
}

static int done(const char *what, rcm_status status) {
    int errors = 0;
    CHECK(errors, status == RCM_OK, "%s: %s", what, rcm_last_error());
    return errors;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Each call gets a buffer that may not be used. */
static int refuse_all(rcm_comm *comm, const struct program *p, void *bad, const char *words) {
    void *const good = program_buffer(p->out);
    const int peer = (rcm_rank(comm) + 1) % rcm_size(comm);
    const struct rcm_part parts[] = {{good, good, 8, RCM_INT32}, {bad, good, 8, RCM_INT32}};
    const struct rcm_transfer transfers[] = {
        {.kind = RCM_TRANSFER_SEND, .peer = peer, .buffer = good, .count = 8, .dtype = RCM_INT32},
        {.kind = RCM_TRANSFER_RECV, .peer = peer, .buffer = bad, .count = 8, .dtype = RCM_INT32}};
    const size_t counts[] = {8, 8, 8};
    rcm_work *work = NULL;
    const struct {
        const char *name;
        rcm_status status;
        const char *text;
    } got[] = {
#define CALL(call) {#call, call, strdup(rcm_last_error())}
        CALL(rcm_all_reduce(comm, bad, good, COUNT, RCM_INT32, RCM_SUM, &now, NULL)),
        CALL(rcm_all_reduce(comm, good, bad, 8, RCM_INT32, RCM_SUM, &now, NULL)),
        CALL(rcm_broadcast(comm, bad, 8, RCM_INT32, 0, &now, &work)),
        CALL(rcm_all_gather_v(comm, bad, 8, good, counts, NULL, RCM_INT32, &now, NULL)),
        CALL(rcm_coalesced(comm, RCM_ALL_REDUCE, parts, 2, RCM_SUM, 0, &now, NULL)),
        CALL(rcm_send(comm, bad, 1, RCM_INT32, peer, 1, &now, NULL)),
        CALL(rcm_send(comm, bad, COUNT, RCM_INT32, peer, 1, &now, NULL)),
        CALL(rcm_recv(comm, bad, 1, RCM_INT32, peer, 1, &now, NULL)),
        CALL(rcm_irecv(comm, bad, COUNT, RCM_INT32, peer, 1, &work)),
        CALL(rcm_sendrecv(comm, good, 8, peer, 1, bad, 8, peer, 1, RCM_INT32, &now, NULL)),
        CALL(rcm_batch(comm, transfers, 2, &now, NULL)),
    };
    int errors = 0;
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++) {
        CHECK(errors, got[i].status == RCM_ERR_INVALID && strstr(got[i].text, words),
              "%s: %s (%s), not \"%s\"", got[i].name, rcm_status_name(got[i].status), got[i].text,
              words);
        free((void *)(uintptr_t)got[i].text);
    }
    return errors;
}

/* A sum over memory that each rank has filled with VALUE. */
static int works(rcm_comm *comm, const struct program *p, void *from) {
    int errors = done("all_reduce", rcm_all_reduce(comm, from, program_buffer(p->out), BYTES,
                                                   RCM_UINT8, RCM_SUM, &now, NULL));
    const size_t wrong = program_wrong(p, p->out, BYTES, (unsigned char)(VALUE * rcm_size(comm)));
    CHECK(errors, wrong == 0, "%zu bytes of the sum are wrong", wrong);
    return errors;
}

static int filled(const struct program *p, rcmi_cuda_address at) {
    return p->cuda->cuMemsetD8Async(at, VALUE, BYTES, NULL) != RCMI_CUDA_SUCCESS ||
           p->cuda->cuStreamSynchronize(NULL) != RCMI_CUDA_SUCCESS;
}

/* ---- Freed memory ---------------------------------------------------------------------------- */

/* Same address, another allocation. */
static int allocate_anew(struct program *p) {
    const rcmi_cuda_address was = p->in;
    int errors = 0;
    CHECK(errors,
          p->cuda->cuMemFree(p->in) == RCMI_CUDA_SUCCESS &&
              p->cuda->cuMemAlloc(&p->in, BYTES) == RCMI_CUDA_SUCCESS && p->in == was,
          "cuMemAlloc returned another address");
    return errors + filled(p, p->in);
}

/* Also if peers have opened the first allocation. */
static int check_reused(rcm_comm *comm, struct program *p) {
    void *const in = program_buffer(p->in);
    int errors = done("register", rcm_mem_register(comm, in, BYTES)) + works(comm, p, in);
    errors += allocate_anew(p);
    errors += refuse_all(comm, p, in, "and others allocated there");
    errors += refused("register", rcm_mem_register(comm, in, BYTES), "and registered again");
    errors += done("deregister", rcm_mem_deregister(comm, in, BYTES));
    errors += works(comm, p, in);
    errors += done("register", rcm_mem_register(comm, in, BYTES)) + works(comm, p, in);
    return errors + done("deregister", rcm_mem_deregister(comm, in, BYTES));
}

/* The memory is freed and not replaced. */
static int check_gone(rcm_comm *comm, struct program *p) {
    void *const in = program_buffer(p->in);
    rcm_work *work = NULL, *message = NULL;
    const struct rcm_call persistent = {.size = sizeof persistent,
                                        .flags = RCM_NO_STREAM | RCM_PERSISTENT};
    int errors = done("persist", rcm_all_reduce(comm, in, program_buffer(p->out), 8, RCM_INT32,
                                                RCM_SUM, &persistent, &work));
    errors += done("persist", rcm_send(comm, in, 8, RCM_INT32, 0, 1, &persistent, &message));
    if (errors || p->cuda->cuMemFree(p->in) != RCMI_CUDA_SUCCESS)
        return errors + 1;
    for (int i = 0; i < 2; i++) {
        errors += refused("start", rcm_work_start(work), "made persistent, and was freed since");
        errors += refused("start", rcm_work_start(message), "made persistent, and was freed since");
    }
    rcm_work_free(work);
    rcm_work_free(message);
    CHECK(errors, p->cuda->cuMemAlloc(&p->in, BYTES) == RCMI_CUDA_SUCCESS, "cuMemAlloc");
    errors += filled(p, p->in);
    errors += done("register", rcm_mem_register(comm, program_buffer(p->in), BYTES));
    CHECK(errors, p->cuda->cuMemFree(p->in) == RCMI_CUDA_SUCCESS, "cuMemFree");
    errors += refuse_all(comm, p, program_buffer(p->in), "were freed. Call rcm_mem_deregister");
    errors += done("deregister", rcm_mem_deregister(comm, program_buffer(p->in), BYTES));
    CHECK(errors, p->cuda->cuMemAlloc(&p->in, BYTES) == RCMI_CUDA_SUCCESS, "cuMemAlloc");
    return errors + filled(p, p->in) + works(comm, p, program_buffer(p->in));
}

/* One of two pieces is mapped anew. The buffer does not lie in that piece. */
static int check_piece(rcm_comm *comm, const struct program *p) {
    struct mapped mapped;
    const char *call = "";
    int errors = 0;
    CHECK(errors,
          mapped_new_pieces(p->cuda, 0, 2, RCMI_CUDA_HANDLE_DESCRIPTOR, &mapped, &call) == 0, "%s",
          call);
    void *const at = program_buffer(mapped.at);
    if (errors || filled(p, mapped.at))
        return errors + 1;
    errors += done("register", rcm_mem_register(comm, at, mapped.bytes)) + works(comm, p, at);
    CHECK(errors,
          p->cuda->cuMemUnmap(mapped.at + MAPPED_PIECE, MAPPED_PIECE) == 0 &&
              mapped_piece(p->cuda, 0, mapped.at + MAPPED_PIECE, RCMI_CUDA_HANDLE_DESCRIPTOR,
                           &call) == 0,
          "%s", call);
    errors += refuse_all(comm, p, at, "and others allocated there");
    errors += done("deregister", rcm_mem_deregister(comm, at, mapped.bytes)) + works(comm, p, at);
    CHECK(errors, mapped_free(p->cuda, &mapped) == 0, "cuMemUnmap");
    return errors;
}

/* Memory of rcm_mem_alloc_kind that the program frees itself. */
static int check_block(rcm_comm *comm, const struct program *p) {
    void *block = NULL, *host = NULL;
    int errors = done("alloc", rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, BYTES, &block));
    errors += done("alloc", rcm_mem_alloc(comm, 4096, &host));
    CHECK(errors, p->cuda->cuMemFree((rcmi_cuda_address)(uintptr_t)block) == 0, "cuMemFree");
    CHECK(errors, munmap(host, 4096) == 0, "munmap");
    errors += refuse_all(comm, p, block, "Call rcm_mem_free before that");
    errors += refused("broadcast", rcm_broadcast(comm, host, 8, RCM_INT32, 0, NULL, NULL),
                      "not all mapped any more. Call rcm_mem_free");
    return errors + works(comm, p, program_buffer(p->in));
}

static int check_host(rcm_comm *comm) {
    const size_t pages = 4 * 4096;
    char *memory = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int errors = 0, sum = 0, one = 1;
    CHECK(errors, memory != MAP_FAILED, "mmap");
    errors += done("register", rcm_mem_register(comm, memory + 100, pages - 100));
    errors += done("all_reduce", rcm_all_reduce(comm, memory + 8192, memory + 8192, 100, RCM_INT8,
                                                RCM_SUM, NULL, NULL));
    CHECK(errors, munmap(memory + pages - 4096, 4096) == 0, "munmap");
    errors += refused(
        "all_reduce",
        rcm_all_reduce(comm, memory + 8192, memory + 8192, 100, RCM_INT8, RCM_SUM, NULL, NULL),
        "are not all mapped any more. Call rcm_mem_deregister");
    errors += done("deregister", rcm_mem_deregister(comm, memory + 100, pages - 100));
    errors +=
        done("all_reduce", rcm_all_reduce(comm, &one, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL));
    CHECK(errors, sum == rcm_size(comm), "the sum is %d", sum);
    (void)munmap(memory, pages - 4096);
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static int check_checked(rcm_comm *comm, void *arg) {
    struct program p;
    (void)arg;
    int errors = program_begin(&p, BYTES, VALUE);
    if (errors)
        return errors;
    errors += check_reused(comm, &p) + check_gone(comm, &p) + check_piece(comm, &p);
    errors += check_block(comm, &p) + check_host(comm);
    return errors + program_end(&p);
}

static int check_unchecked(rcm_comm *comm, void *arg) {
    struct program p;
    (void)arg;
    int errors = program_begin(&p, BYTES, VALUE);
    if (errors)
        return errors;
    void *const in = program_buffer(p.in);
    errors += check_gone(comm, &p);
    errors += done("register", rcm_mem_register(comm, in, BYTES));
    errors += allocate_anew(&p);
    errors += refused("register", rcm_mem_register(comm, in, BYTES), "and registered again");
    errors += done("deregister", rcm_mem_deregister(comm, in, BYTES));
    errors += done("register", rcm_mem_register(comm, in, BYTES)) + works(comm, &p, in);
    return errors + program_end(&p);
}

int main(int argc, char **argv) {
    const bool checked = argc > 1 && strcmp(argv[1], "checked") == 0;
    const struct ranks ranks = {.n = 2, .transport = "auto", .timeout_ms = 20000};
    setenv("RINGCOMM_CHECK_MEMORY", checked ? "1" : "0", 1);
    return ranks_run(&ranks, checked ? check_checked : check_unchecked, NULL) ? 1 : 0;
}
