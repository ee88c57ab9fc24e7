/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory between ranks, on every machine that the emulator provides (emulated_machines.c).
 * Operations, types, lengths and memory kinds are drawn. Results have the bits of the same call on
 * host buffers, and the expected plane carries them.
 *
 *     planes plain|threads|hostile DRAWS [SEED [NAME]]   DRAWS draws on each machine, or on one
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../emulator_counts.h"
#include "memory_kinds.h"
#include "emulated_machines.h"
#ifdef HAS_VERBS
#include "../../fakes/verbs/provider.h"
#endif

enum { BLOCK_MAX = 144016, FILES = 1024 };

struct task {
    const struct machine *machine;
    uint64_t seed;
    int draws;
};

static struct task now; /* inherited by ranks */

static uint64_t draw(uint64_t seed) {
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    return seed ^ seed >> 31;
}

/* ---- Selected plane -------------------------------------------------------------------------- */

static bool on_one_host(int a, int b) {
    const int hosts = now.machine->hosts;
    return hosts == 0 || a % hosts == b % hosts;
}

/* Prepares all links first, because the draws may have used some for host memory only. */
static int check_planes(rcm_comm *comm) {
    const bool wanted = now.machine->plane == PLANE_DEVICE && has_device_backend();
    int errors = 0;
    CHECK(errors,
          rcm_comm_prepare_kind(comm, RCM_MEM_DEVICE, RCM_ALL_TO_ALL, BLOCK_MAX, 0, "pairwise") ==
              RCM_OK,
          "%s", rcm_last_error());
    for (int peer = 0; now.machine->plane != PLANE_EITHER && peer < rcm_size(comm); peer++) {
        const char *text = rcm_comm_transport(comm, peer);
        if (peer == rcm_rank(comm) || !text[0])
            continue;
        const bool got = strstr(text, "cuda_ipc") != NULL;
        CHECK(errors, got == (wanted && on_one_host(peer, rcm_rank(comm))),
              "rank %d: to rank %d it is %s", rcm_rank(comm), peer, text);
    }
    return errors;
}

/* ---- Children -------------------------------------------------------------------------------- */

static int sockets(void) {
    char path[64], to[32];
    int n = 0;
    for (int fd = 0; fd < FILES; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        n += readlink(path, to, sizeof to) > 7 && memcmp(to, "socket:", 7) == 0;
    }
    return n;
}

/* A forked child keeps no connection of the rank: an open one would hide the rank's death. */
static int check_child(void) {
    int errors = 0, status = 0;
    if (now.machine->threads)
        return 0; /* it would have the other ranks' sockets too */
    fflush(NULL);
    const int before = sockets();
    const pid_t child = fork();
    if (child == 0)
        _exit(sockets());
    CHECK(errors, child > 0 && waitpid(child, &status, 0) == child && status == 0,
          "of %d sockets a child has %d", before, WEXITSTATUS(status));
    return errors;
}

/* ---- Draws ----------------------------------------------------------------------------------- */

static const rcm_dtype dtypes[] = {
#define DTYPE(name, number, bytes, type) RCM_##name,
    RCM_DTYPE_MAP(DTYPE)
#undef DTYPE
};

static bool is_defined(size_t operation, rcm_dtype dtype) {
    return !bench_operations[operation].reduces ||
           (rcm_op_defined(RCM_SUM, dtype) == RCM_OK && rcm_op_defined(RCM_MAX, dtype) == RCM_OK);
}

/* The same operation on all ranks, with different memory kinds. */
static int one(struct bench *b, const struct buffer *in, const struct buffer *out, int i) {
    static const size_t counts[] = {1, 7, 1000, 9001, 3, 257, 4099, 1};
    const uint64_t all = draw(now.seed * 1000003u + (unsigned)i);
    const uint64_t mine = draw(all + (unsigned)rcm_rank(b->comm));
    const size_t operation = all % bench_operations_count;
    b->dtype = dtypes[(all >> 8) % (sizeof dtypes / sizeof dtypes[0])];
    if (!is_defined(operation, b->dtype))
        b->dtype = RCM_FLOAT32;
    b->count = counts[(all >> 16) % 8];
    b->in = in[mine % MEMORIES].at;
    b->out = out[(mine >> 8) % MEMORIES].at;
    const int errors = bench_one(b, operation, (unsigned)(all >> 24 & 0xffff));
    if (errors)
        fprintf(stderr, "draw %d: %s of %zu %s\n", i, bench_operations[operation].name, b->count,
                rcm_dtype_name(b->dtype));
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    struct buffer in[MEMORIES], out[MEMORIES];
    struct bench b;
    int errors = bench_begin(&b, comm, BLOCK_MAX);
    char *const first_in = b.in, *const first_out = b.out;
    (void)arg;
    for (int i = 0; i < MEMORIES && !errors; i++)
        errors += buffer_new(&b, (enum memory)i, b.bytes, &in[i]) +
                  buffer_new(&b, (enum memory)i, b.bytes, &out[i]);
    for (int i = 0; i < now.draws && !errors; i++)
        errors += one(&b, in, out, i);
    errors += errors ? 0 : check_planes(comm) + check_child();
    for (int i = 0; i < MEMORIES && !errors; i++)
        errors += buffer_free(&b, &in[i]) + buffer_free(&b, &out[i]);
    b.in = first_in;
    b.out = first_out;
    return errors + (errors ? 0 : bench_end(&b));
}

/* ---- Machines -------------------------------------------------------------------------------- */

static void enter_rank(int rank) {
    machine_enter_rank(now.machine, rank);
}

/* Fake RDMA devices, visible only to threads of this process. */
static void fake_devices(const struct machine *s, bool begins) {
#ifdef HAS_VERBS
    const struct provider_setup setup = {.seed = 5, .devices = 2, .inline_max = 220};
    if (strncmp(s->transport, "verbs", 5) == 0 && begins)
        provider_install(&setup);
    else if (strncmp(s->transport, "verbs", 5) == 0)
        provider_remove();
#else
    (void)s;
    (void)begins;
#endif
}

static int run_here(void) {
    const struct machine *s = now.machine;
    const struct ranks ranks = {.n = s->ranks,
                                .threads = s->threads,
                                .transport = s->transport,
                                .timeout_ms = 60000,
                                .hosts = s->hosts,
                                .before = enter_rank};
    machine_enter(s);
    fake_devices(s, true);
    const int errors = ranks_run(&ranks, check, NULL);
    fake_devices(s, false);
    return errors;
}

/* Runs in a child, because the emulator reads its settings once per process, and a driver is
 * unusable after a fork. */
static int run_child(void) {
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        exit(run_here() ? 1 : 0);
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static int run(void) {
    const int errors = now.machine->threads ? run_child() : run_here();
    if (errors)
        printf("FAILED: %s, seed %llu\n", now.machine->name, (unsigned long long)now.seed);
    return errors;
}

static int run_all(const struct machine *all, size_t n, const char *name) {
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        now.machine = &all[i];
        if (!name || strcmp(name, all[i].name) == 0)
            failed += run() != 0;
        now.seed++;
    }
    return failed;
}

static const struct {
    const char *name;
    const struct machine *all;
    const size_t *count;
} tables[] = {{"plain", machines_plain, &machines_plain_count},
              {"threads", machines_threads, &machines_threads_count},
              {"hostile", machines_hostile, &machines_hostile_count}};

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    setenv("RINGCOMM_SLOT_BYTES", "16384", 0);
    now.draws = atoi(argv[2]);
    now.seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(argv[1], tables[i].name) == 0)
            return run_all(tables[i].all, *tables[i].count, argc > 4 ? argv[4] : NULL) > 0;
    return 2;
}
