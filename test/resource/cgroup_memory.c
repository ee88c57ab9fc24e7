/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank in a control group with little memory: an allocation that does not fit returns an error
 * that names the limit, and no process is killed.
 *     cgroup TRANSPORT
 * The limit is set on a parent group. Skipped (77) where no group can be made: not root, or no
 * memory controller.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ringcomm.h"

#define MIB   ((size_t)1 << 20)
#define LIMIT (256 * MIB)

enum { SKIPPED = 77, BLOCKS = 400 };

static char outer[128], inner[160];

static bool put(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* cgroup version 1, or 2 where it has the memory controller. */
static bool groups_make(void) {
    char limit[32];
    snprintf(limit, sizeof limit, "%zu", LIMIT);
    const bool first = access("/sys/fs/cgroup/memory/memory.limit_in_bytes", F_OK) == 0;
    const char *mount = first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    snprintf(outer, sizeof outer, "%s/ringcomm-test-%d", mount, (int)getpid());
    snprintf(inner, sizeof inner, "%s/inner", outer);
    if (!first)
        (void)put(mount, "cgroup.subtree_control", "+memory");
    if (mkdir(outer, 0755) != 0)
        return false;
    return put(outer, first ? "memory.limit_in_bytes" : "memory.max", limit) &&
           (first || put(outer, "cgroup.subtree_control", "+memory")) && mkdir(inner, 0755) == 0;
}

static void groups_end(void) {
    rmdir(inner);
    rmdir(outer);
}

static int refused(rcm_comm *comm, size_t bytes) {
    void *memory = NULL;
    const rcm_status status = rcm_mem_alloc(comm, bytes, &memory);
    if (status == RCM_ERR_RESOURCE && strstr(rcm_last_error(), outer))
        return 0;
    fprintf(stderr, "%zu bytes: %s: %s\n", bytes, rcm_status_name(status), rcm_last_error());
    return 1;
}

/* Allocates one block after the other until one fails. */
static int fill(rcm_comm *comm, size_t bytes) {
    void *blocks[BLOCKS] = {NULL};
    int n = 0, errors;
    while (n < BLOCKS && rcm_mem_alloc(comm, bytes, &blocks[n]) == RCM_OK)
        memset(blocks[n++], 1, bytes);
    errors = strstr(rcm_last_error(), outer) == NULL || n * bytes < LIMIT / 2 || n * bytes > LIMIT;
    if (errors)
        fprintf(stderr, "%d blocks of %zu bytes: %s\n", n, bytes, rcm_last_error());
    while (n > 0)
        errors += rcm_mem_free(comm, blocks[--n]) != RCM_OK;
    return errors;
}

/* A result that does not fit. The send buffers are never written, so they use no memory. */
static int gather_refused(rcm_comm *comm) {
    struct rcm_bytes *bytes = NULL;
    void *send = mmap(NULL, LIMIT + MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (send == MAP_FAILED)
        abort();
    const rcm_status status = rcm_all_gather_bytes(comm, send, LIMIT + MIB, &bytes, NULL, NULL);
    munmap(send, LIMIT + MIB);
    free(bytes);
    if (status == RCM_ERR_NOMEM || status == RCM_ERR_RESOURCE)
        return 0;
    fprintf(stderr, "all_gather_bytes: %s: %s\n", rcm_status_name(status), rcm_last_error());
    return 1;
}

static int rank_main(const char *transport) {
    char url[64], pid[16];
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm = NULL;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (!put(inner, "cgroup.procs", pid))
        return SKIPPED;
    snprintf(url, sizeof url, "file:///tmp/ringcomm-cgroup-%d", (int)getpid());
    options.rank = 0;
    options.world_size = 1;
    options.url = url;
    options.transport = transport;
    if (rcm_init(&options, &comm) != RCM_OK) {
        fprintf(stderr, "%s\n", rcm_last_error());
        return 1;
    }
    int errors = refused(comm, LIMIT + MIB) + refused(comm, 64 * LIMIT);
    errors += fill(comm, 16 * MIB) + fill(comm, MIB) + refused(comm, LIMIT);
    errors += gather_refused(comm);
    (void)!rcm_destroy(comm); /* fails: the other ranks of the gather are missing this one */
    unlink(url + 7);
    return errors != 0;
}

int main(int argc, char **argv) {
    int status = 0;
    if (argc != 2 || !groups_make()) {
        groups_end();
        return SKIPPED;
    }
    const pid_t pid = fork();
    if (pid == 0)
        exit(rank_main(argv[1]));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    groups_end();
    if (WIFSIGNALED(status))
        fprintf(stderr, "the rank was killed by signal %d\n", WTERMSIG(status));
    return WIFSIGNALED(status) ? 1 : WEXITSTATUS(status);
}
