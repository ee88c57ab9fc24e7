/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System limits that are really reached: a resource that is missing gives an error with a reason,
 * and the library works again when the resource is back.
 *     resource_limits CASE
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "victim_run.h"
#include "ringcomm.h"

enum { SKIP = 77 };

static int errors;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            errors++;                                                                              \
        }                                                                                          \
    } while (0)

/* ---- Jobs with a low limit ----------------------------------------------------------------- */

static void limit_sweep(const char *limit, long from, long to, long step) {
    static const char *const kinds[][2] = {{"shm", "file"}, {"shm", "tcp"}, {"tcp", "tcp"}};
    for (size_t k = 0; k < 3; k++) {
        setup.transport = kinds[k][0];
        setup.store = kinds[k][1];
        for (int victim = 0; victim < 2; victim++)
            for (long room = from; room <= to; room += step)
                attempt_start(&(struct trouble){
                    .victim = victim, .plan = {.function = -1}, .limit = limit, .room = room});
        attempts_wait();
    }
    const struct totals t = attempts_total();
    printf("%s: %ld runs, %ld failed, %ld findings\n", limit, t.runs, t.struck, t.findings);
    errors += t.findings > 0;
}

static void descriptors(void) {
    limit_sweep("nofile", 0, 24, 1);
    CHECK(attempts_total().struck > 10, "no run had too few descriptors");
}

static void address_space(void) {
    limit_sweep("as", 0, 24 * 1024, 1500);
    CHECK(attempts_total().struck > 3, "no run had too little memory");
}

static void locked_memory(void) {
    limit_sweep("memlock", 0, 0, 1);
}

/* Limit on the size of the store's file (ulimit -f). */
static void file_size(void) {
    limit_sweep("fsize", 0, 3000, 600);
    limit_sweep("fsize", 4000, 1000000, 300000);
    CHECK(attempts_total().struck > 10, "no file was too large");
}

/* ---- A full disk --------------------------------------------------------------------------- */

static void full_at_once(void) {
    setup.url = "file:///dev/full";
    setup.print_ranks = true;
    attempt_start(&(struct trouble){.plan = {.function = -1}});
    attempts_wait();
    CHECK(attempts_total().struck == 1, "a store that cannot be written was taken");
    errors += attempts_total().findings > 0;
}

/* A file system of one page: the first records fit. Needs the right to mount. */
static int full_later(void) {
    char folder[] = "/tmp/ringcomm-resource-XXXXXX", url[80];
    if (!mkdtemp(folder))
        return 1;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=4096") != 0) {
        rmdir(folder);
        return SKIP;
    }
    snprintf(url, sizeof url, "file://%s/store", folder);
    setup.url = url;
    setup.ranks = 8;
    setup.print_ranks = true;
    attempt_start(&(struct trouble){.plan = {.function = -1}});
    attempts_wait();
    CHECK(attempts_total().struck == 1, "the disk was not full");
    errors += attempts_total().findings > 0;
    umount(folder);
    rmdir(folder);
    return 0;
}

/* ---- No descriptor for new connections ----------------------------------------------------- */

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void descriptors_limit(rlim_t n) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = n ? n : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        abort();
}

/* Sets the limit to the descriptors that are open. */
static void descriptors_end(void) {
    int fd = dup(0);
    close(fd);
    descriptors_limit((rlim_t)fd);
}

/* A store's server without a free descriptor does not spin, and serves again when it gets one. */
static void store_waits(void) {
    rcm_store *store;
    int port, fds[4];
    /* PING of the store's protocol, after its magic number; the answer is the same number. */
    const unsigned char ping[] = {0, 0xCE, 0xF7, 0x85, 0x3C, 13, 1, 2, 3, 4};
    unsigned char answer[4] = {0};
    struct pollfd p = {.events = POLLIN};
    if (rcm_store_open("tcp://127.0.0.1:0?server=1", 0, &store) != RCM_OK)
        abort();
    port = atoi(strrchr(rcm_store_url(store), ':') + 1);
    for (int i = 0; i < 4; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    descriptors_end();
    for (int i = 0; i < 4; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        CHECK(connect(fds[i], (struct sockaddr *)&a, sizeof a) == 0, "cannot connect");
        CHECK(send(fds[i], ping, sizeof ping, MSG_NOSIGNAL) == sizeof ping, "cannot send");
    }
    const double before = cpu_seconds();
    sleep(2);
    const double used = cpu_seconds() - before;
    printf("%.3f s of CPU in 2 s without descriptors\n", used);
    CHECK(used < 0.5, "the server spins: %.2f s of CPU in 2 s", used);
    descriptors_limit(0);
    for (int i = 0; i < 4; i++) {
        p.fd = fds[i];
        CHECK(poll(&p, 1, 20000) == 1 && recv(fds[i], answer, 4, 0) == 4 && answer[3] == 4,
              "client %d was not served when there were descriptors again", i);
        close(fds[i]);
    }
    rcm_store_close(store);
}

/* The same for the links of a communicator: rank 0 has no descriptor when rank 1 connects. */
static int link_rank(int rank, void *arg) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    int *ready = arg;
    rcm_comm *comm;
    float mine = (float)(rank + 1), sum = 0;
    options.transport = setup.transport;
    options.timeout_ms = 60000;
    CHECK(rcm_init(&options, &comm) == RCM_OK, "init: %s", rcm_last_error());
    if (errors)
        return 1;
    if (rank == 0) {
        descriptors_end();
        __atomic_store_n(ready, 1, __ATOMIC_SEQ_CST);
        const double before = cpu_seconds();
        sleep(2);
        const double used = cpu_seconds() - before;
        printf("%.3f s of CPU in 2 s without descriptors\n", used);
        CHECK(used < 0.5, "the listener spins: %.2f s of CPU in 2 s", used);
        descriptors_limit(0);
    }
    while (!__atomic_load_n(ready, __ATOMIC_SEQ_CST))
        usleep(1000);
    CHECK(rcm_all_reduce(comm, &mine, &sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "rank %d: %s", rank, rcm_last_error());
    CHECK(sum == 3, "rank %d got %g", rank, (double)sum);
    CHECK(rcm_destroy(comm) == RCM_OK, "rank %d: %s", rank, rcm_last_error());
    return errors > 0;
}

static void links_wait(const char *transport) {
    int *ready =
        mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed, status;
    setup.transport = transport;
    setenv("RINGCOMM_PEER_TIMEOUT", "60", 1);
    CHECK(rcm_spawn(2, link_rank, ready, 120000, &failed, &status) == RCM_OK, "%s: %s", transport,
          rcm_last_error());
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    int skipped = 0;
    setup.jobs = 12; /* the runs mostly wait */
    attempts_init();
    if (strcmp(name, "descriptors") == 0)
        descriptors();
    else if (strcmp(name, "address-space") == 0)
        address_space();
    else if (strcmp(name, "locked-memory") == 0)
        locked_memory();
    else if (strcmp(name, "file-size") == 0)
        file_size();
    else if (strcmp(name, "full-at-once") == 0)
        full_at_once();
    else if (strcmp(name, "full-later") == 0)
        skipped = full_later();
    else if (strcmp(name, "store-waits") == 0)
        store_waits();
    else if (strcmp(name, "links-wait-shm") == 0)
        links_wait("shm");
    else if (strcmp(name, "links-wait-tcp") == 0)
        links_wait("tcp");
    else
        return 2;
    return errors > 0 ? 1 : skipped;
}
