/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each driver call fails once, at each place in the library that makes it. Two ranks use device
 * memory in every way, and the call fails on rank 1. Rank 1's status reports it, rank 0 gets the
 * error in time, no result is wrong, and nothing leaks.
 *
 *     driver_failures SEED N   N places, drawn by SEED; 0: all places
 *     driver_failures NAME N   each of the first N calls of one driver function
 *     driver_failures run      one run, with the emulator's settings in the environment
 *
 * Only the library's calls count: it is a shared library here, and the program makes no driver
 * call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "leak_check.h"
#include "ranks.h"

enum { SITES = 400, COUNT = 700001, SECONDS = 60, LEAST = 30 };

/* ---- Operations ------------------------------------------------------------------------------ */

struct buffers {
    int32_t *in, *out; /* on the device, COUNT elements */
    int32_t *host;     /* COUNT elements, a half from each rank */
};

static rcm_status messages(rcm_comm *comm, const struct buffers *b) {
    const int peer = 1 - rcm_rank(comm);
    const rcm_status status =
        rcm_sendrecv(comm, b->out, COUNT, peer, 1, b->host, COUNT, peer, 1, RCM_INT32, NULL, NULL);
    return status == RCM_OK ? rcm_sendrecv(comm, b->host, COUNT, peer, 2, b->in, COUNT, peer, 2,
                                           RCM_INT32, NULL, NULL)
                            : status;
}

/* From host memory to `in`, summed in place, gathered on the device, and back to host memory. */
static rcm_status use(rcm_comm *comm, const struct buffers *b) {
    const struct rcm_call apart = {.size = sizeof apart, .flags = RCM_NO_STREAM};
    const int me = rcm_rank(comm);
    rcm_status status = rcm_sendrecv(comm, b->host, COUNT, 1 - me, 3, b->in, COUNT, 1 - me, 3,
                                     RCM_INT32, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, b->in, b->out, COUNT, RCM_INT32, RCM_SUM, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_all_gather(comm, b->out, b->in, COUNT / 2, RCM_INT32, &apart, NULL);
    if (status == RCM_OK)
        status = rcm_broadcast(comm, b->out, COUNT, RCM_INT32, 1, &apart, NULL);
    return status == RCM_OK ? messages(comm, b) : status;
}

static int check_result(const struct buffers *b) {
    int errors = 0;
    for (int i = 0; i < COUNT && errors == 0; i++)
        CHECK(errors, b->host[i] == 2 * i + 1, "element %d is %d", i, (int)b->host[i]);
    return errors;
}

static rcm_status buffers_make(rcm_comm *comm, struct buffers *b) {
    void *in = NULL, *out = NULL;
    const size_t bytes = COUNT * sizeof(int32_t);
    rcm_status status = rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, bytes, &in);
    if (status == RCM_OK)
        status = rcm_mem_alloc_kind(comm, RCM_MEM_DEVICE, bytes, &out);
    b->in = in;
    b->out = out;
    b->host = malloc(bytes);
    for (int i = 0; i < COUNT && b->host; i++)
        b->host[i] = i + rcm_rank(comm);
    return status;
}

static int buffers_free(rcm_comm *comm, struct buffers *b) {
    int errors = 0;
    CHECK(errors, rcm_mem_free(comm, b->in) == RCM_OK && rcm_mem_free(comm, b->out) == RCM_OK, "%s",
          rcm_last_error());
    free(b->host);
    return errors;
}

static int files_before;

/* Resources stay open if the call that releases them fails: nothing else can release them. */
static int check_left(const char *fails) {
    static const char *const gives_back[] = {"Destroy", "Free", "Unload", "Release", "Close", NULL};
    for (int i = 0; gives_back[i]; i++)
        if (strstr(fails, gives_back[i]))
            return 0;
    return leak_check(files_before);
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void before(int rank) {
    if (rank == 0)
        unsetenv("FAKECUDA_FAIL");
    files_before = count_open_files();
}

/* Rank 1's own call failed. The program aborts, and rank 0 gets the error. */
static int check_failed(rcm_comm *comm, rcm_status status) {
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    if (rcm_rank(comm) == 1) {
        printf("  %s\n", rcm_last_error());
        fflush(stdout);
        CHECK(errors, strstr(rcm_last_error(), "999"), "%s: %s", rcm_status_name(status),
              rcm_last_error());
        (void)!rcm_abort(comm, "the driver failed");
        return errors;
    }
    CHECK(errors, rcm_comm_error(comm, &error) != RCM_OK && error.origin == 1, "origin %d: %s: %s",
          error.origin, rcm_status_name(status), rcm_last_error());
    return errors;
}

static int rank_run(rcm_comm *comm, void *arg) {
    struct buffers b = {NULL, NULL, NULL};
    const char *fails = arg;
    rcm_status status = buffers_make(comm, &b);
    if (status == RCM_OK)
        status = use(comm, &b);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    int errors = status == RCM_OK ? check_result(&b) : check_failed(comm, status);
    if (!*fails)
        CHECK(errors, status == RCM_OK, "nothing failed, but %s: %s", rcm_status_name(status),
              rcm_last_error());
    errors += buffers_free(comm, &b);
    (void)!rcm_destroy(comm);
    return errors + check_left(fails);
}

static int run(void) {
    const char *fails = getenv("SITES_NAME");
    const struct ranks ranks = {
        .n = 2, .transport = "auto", .timeout_ms = 20000, .keep = true, .before = before};
    return ranks_run(&ranks, rank_run, (void *)(fails ? fails : "")) ? 1 : 0;
}

/* ---- All runs -------------------------------------------------------------------------------- */

struct site {
    char name[60], place[120];
    char fail[130]; /* FAKECUDA_FAIL */
};

/* Starts the program again. In its ranks the call at `site` fails; NULL: none fails. */
static int run_self(const struct site *site) {
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (site) {
            unsetenv("FAKECUDA_SITES");
            setenv("FAKECUDA_FAIL", site->fail, 1);
            setenv("SITES_NAME", site->name, 1);
        }
        alarm(SECONDS);
        execl("/proc/self/exe", "sites", "run", (char *)NULL);
        _exit(126);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* True if another rank has listed the site already. */
static bool site_known(const struct site *sites, int n, const struct site *site) {
    for (int i = 0; i < n; i++)
        if (strcmp(sites[i].place, site->place) == 0)
            return true;
    return false;
}

static int sites_read(const char *path, struct site *sites) {
    int n = 0;
    FILE *file = fopen(path, "re");
    while (file && n < SITES && fscanf(file, "%59s %119s", sites[n].name, sites[n].place) == 2)
        if (strstr(sites[n].place, "libringcomm.so") && !site_known(sites, n, &sites[n]))
            n++;
    if (file)
        fclose(file);
    return n;
}

/* The first `want` calls of that function, one per run. */
static int run_each(const char *name, int want) {
    struct site site;
    int errors = 0;
    snprintf(site.name, sizeof site.name, "%s", name);
    for (int i = 1; i <= want && errors == 0; i++) {
        snprintf(site.fail, sizeof site.fail, "%s:%d", site.name, i);
        printf("%s\n", site.fail);
        const int code = run_self(&site);
        CHECK(errors, code == 0, "%s: ended with %d", site.fail, code);
    }
    return errors;
}

/* Moves `want` random sites to the front. */
static void sites_draw(struct site *sites, int n, int want, unsigned seed) {
    for (int i = 0; i < want; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int other = i + (int)((seed >> 8) % (unsigned)(n - i));
        const struct site drawn = sites[other];
        sites[other] = sites[i];
        sites[i] = drawn;
    }
}

static int run_all(unsigned seed, int want) {
    static struct site sites[SITES];
    char path[] = "/tmp/sites-XXXXXX";
    const int fd = mkstemp(path);
    int errors = 0;
    if (fd < 0 || setenv("FAKECUDA_SITES", path, 1) != 0)
        return 1;
    close(fd);
    CHECK(errors, run_self(NULL) == 0, "it fails without an injected failure");
    const int n = sites_read(path, sites);
    unlink(path);
    CHECK(errors, n >= LEAST, "only %d places that call the driver", n);
    want = want > 0 && want < n ? want : n;
    sites_draw(sites, n, want, seed);
    for (int i = 0; i < want && errors == 0; i++) {
        printf("%s at %s\n", sites[i].name, sites[i].place);
        snprintf(sites[i].fail, sizeof sites[i].fail, "@%s", sites[i].place);
        const int code = run_self(&sites[i]);
        CHECK(errors, code == 0, "%s at %s: ended with %d", sites[i].name, sites[i].place, code);
    }
    printf("%d of %d places failed\n", want, n);
    return errors;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "run") == 0)
        return run();
    if (argc != 3)
        return 2;
    if (strncmp(argv[1], "cu", 2) == 0)
        return run_each(argv[1], atoi(argv[2])) ? 1 : 0;
    return run_all((unsigned)atoi(argv[1]), atoi(argv[2])) ? 1 : 0;
}
