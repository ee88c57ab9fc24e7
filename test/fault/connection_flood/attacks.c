/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks by unauthenticated peers. Each attack is a function that does one thing to one endpoint;
 * a process does it to all endpoints in turn, continuously. Endpoints are TCP ports and the Unix
 * names on which the ranks listen. Names of other processes on the machine are excluded by their
 * descriptors.
 */
#include "connection_flood.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HELD_MAX   1000 /* connections held per endpoint */
#define NAMES_MAX  8
#define PAUSE_NS   200000
#define LOOK_AGAIN 200 /* rounds between two searches for Unix names */

struct endpoint {
    struct sockaddr_storage addr;
    socklen_t len;
    int *held, nheld;
};

static struct flood *flood;
static struct endpoint endpoints[FLOOD_PORTS + NAMES_MAX];
static int nendpoints;

static void nap(long ns) {
    const struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

static void random_bytes(void *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(rand() >> 7);
}

/* ---- Endpoints ------------------------------------------------------------------------------- */

static void endpoints_tcp(void) {
    for (int i = 0; i < FLOOD_PORTS; i++) {
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)(flood->port + i)),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        memcpy(&endpoints[i].addr, &in, sizeof(in));
        endpoints[i].len = sizeof(in);
    }
    nendpoints = FLOOD_PORTS;
}

/* Whether one of our ranks has a descriptor of this inode. */
static bool is_ours(unsigned long inode) {
    char path[300], link[64], want[64];
    snprintf(want, sizeof(want), "socket:[%lu]", inode);
    for (int r = 0; r < FLOOD_RANKS; r++) {
        snprintf(path, sizeof(path), "/proc/%d/fd", atomic_load(&flood->rank_pid[r]));
        DIR *dir = atomic_load(&flood->rank_pid[r]) ? opendir(path) : NULL;
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            const ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
            link[n > 0 ? n : 0] = '\0';
            if (strcmp(link, want) == 0) {
                closedir(dir);
                return true;
            }
        }
        if (dir)
            closedir(dir);
    }
    return false;
}

static bool endpoint_is_known(const char *name) {
    for (int i = FLOOD_PORTS; i < nendpoints; i++)
        if (strcmp(((struct sockaddr_un *)&endpoints[i].addr)->sun_path + 1, name) == 0)
            return true;
    return false;
}

static void endpoints_unix(void) {
    char line[512], name[128];
    unsigned long inode;
    FILE *file = fopen("/proc/net/unix", "re");
    while (file && fgets(line, sizeof(line), file) && nendpoints < FLOOD_PORTS + NAMES_MAX) {
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu @%107s", &inode, name) != 2 ||
            strncmp(name, "ringcomm-", 9) != 0 || endpoint_is_known(name) || !is_ours(inode))
            continue;
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        memcpy(un.sun_path + 1, name, strlen(name));
        memcpy(&endpoints[nendpoints].addr, &un, sizeof(un));
        endpoints[nendpoints++].len =
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    }
    if (file)
        fclose(file);
}

/* Opens a connection; -1 on failure. */
static int open_connection(const struct endpoint *endpoint) {
    const struct timeval patience = {.tv_usec = 100000};
    int fd = socket(endpoint->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&endpoint->addr, endpoint->len) != 0) {
        close(fd);
        return -1;
    }
    atomic_fetch_add(&flood->hits, 1);
    return fd;
}

/* Sends all bytes, or as many as are accepted; a closed connection is no error here. */
static void send_bytes(int fd, const void *bytes, size_t len) {
    for (size_t done = 0; done < len;) {
        const ssize_t n = send(fd, (const uint8_t *)bytes + done, len - done, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        done += (size_t)n;
    }
}

/* Keeps the connection open; connections that the other side closed make space. */
static void hold(struct endpoint *endpoint, int fd, int most) {
    if (!endpoint->held)
        endpoint->held = calloc(HELD_MAX, sizeof(*endpoint->held));
    for (int i = 0; i < endpoint->nheld && endpoint->nheld >= most; i++) {
        struct pollfd entry = {.fd = endpoint->held[i], .events = POLLRDHUP};
        if (poll(&entry, 1, 0) > 0) {
            close(endpoint->held[i]);
            endpoint->held[i--] = endpoint->held[--endpoint->nheld];
        }
    }
    if (endpoint->held && endpoint->nheld < most)
        endpoint->held[endpoint->nheld++] = fd;
    else
        close(fd);
}

/* ---- Attacks --------------------------------------------------------------------------------- */

/* A complete proof with another secret. */
static void attack_wrong(struct endpoint *endpoint, int fd) {
    uint8_t hello[41] = "RCMAUTH1I", answer[41], proof[32];
    (void)endpoint;
    random_bytes(hello + 9, 32);
    random_bytes(proof, sizeof(proof));
    send_bytes(fd, hello, sizeof(hello));
    if (recv(fd, answer, sizeof(answer), MSG_WAITALL) == (ssize_t)sizeof(answer)) {
        send_bytes(fd, proof, sizeof(proof));
        (void)!recv(fd, answer, sizeof(answer), 0);
    }
    close(fd);
}

static void attack_scan(struct endpoint *endpoint, int fd) {
    (void)endpoint;
    close(fd);
}

static void attack_noise(struct endpoint *endpoint, int fd) {
    static uint8_t bytes[1 << 20];
    (void)endpoint;
    if (!bytes[0] && !bytes[1])
        random_bytes(bytes, sizeof(bytes));
    bytes[0] = (uint8_t)rand();
    bytes[1] = (uint8_t)(rand() | 1);
    send_bytes(fd, bytes, sizeof(bytes));
    close(fd);
}

static void attack_silent(struct endpoint *endpoint, int fd) {
    hold(endpoint, fd, HELD_MAX);
}

static size_t put(uint8_t *at, uint64_t value, size_t len) {
    memcpy(at, &value, len);
    return len;
}

/* A rank's message after the proof, with an unknown job. */
static size_t greeting(uint8_t *at, uint32_t from, uint32_t to, uint32_t nranks) {
    size_t n = put(at, 0x52434d48u, 4);
    n += put(at + n, 1, 2);                     /* version */
    n += put(at + n, 1 + (from & 1) * 256u, 2); /* kind, index */
    n += put(at + n, from, 4);
    n += put(at + n, to, 4);
    n += put(at + n, nranks, 4);
    n += put(at + n, 0, 4);
    n += put(at + n, (uint64_t)rand() << 32, 8); /* job */
    memcpy(at + n, "tcp\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    return n + 16;
}

static void attack_half(struct endpoint *endpoint, int fd) {
    uint8_t bytes[128] = "RCMAUTH1I";
    size_t len = 41;
    switch (rand() % 3) {
    case 0:
        random_bytes(bytes + 9, 32);
        break;
    case 1:
        len = greeting(bytes, 1, 0, FLOOD_RANKS);
        break;
    default:
        len = flood->recorded_len < sizeof(bytes) ? flood->recorded_len : sizeof(bytes);
        memcpy(bytes, flood->recorded, len);
        break;
    }
    send_bytes(fd, bytes, 1 + (size_t)rand() % (len - 1));
    hold(endpoint, fd, HELD_MAX / 4);
}

/* Sends recorded bytes of a client with the secret. */
static void attack_replay(struct endpoint *endpoint, int fd) {
    uint8_t answer[256];
    (void)endpoint;
    send_bytes(fd, flood->recorded, flood->recorded_len);
    (void)!recv(fd, answer, sizeof(answer), 0);
    close(fd);
}

/* Lengths that are too large, for either protocol. */
static void attack_lengths(struct endpoint *endpoint, int fd) {
    static const uint64_t large[] = {UINT64_MAX,          (uint64_t)1 << 63, (uint64_t)1 << 32,
                                     (uint64_t)INT64_MAX, 1000000000,        65536};
    static const uint8_t operations[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 14, 18, 19};
    const uint64_t n = large[(size_t)rand() % 6];
    uint8_t bytes[64] = {0, 0xce, 0xf7, 0x85, 0x3c};
    size_t len = 5;
    (void)endpoint;
    if (rand() % 3 == 0) {
        len = greeting(bytes, (uint32_t)n, (uint32_t)rand() % 5, (uint32_t)(n >> 32));
    } else {
        bytes[len++] = operations[(size_t)rand() % sizeof(operations)];
        len += put(bytes + len, n, 8);
        random_bytes(bytes + len, 40);
        len += 40;
    }
    send_bytes(fd, bytes, len);
    close(fd);
}

static const struct attack {
    const char *name;
    void (*act)(struct endpoint *endpoint, int fd);
} attacks[] = {
    {"wrong", attack_wrong},     {"scan", attack_scan}, {"noise", attack_noise},
    {"silent", attack_silent},   {"half", attack_half}, {"replay", attack_replay},
    {"lengths", attack_lengths},
};

const char *const flood_attacks[] = {"wrong", "scan",   "noise",   "silent",
                                     "half",  "replay", "lengths", NULL};

/* ---- The loop -------------------------------------------------------------------------------- */

static const struct attack *attack_find(const char *name) {
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (strcmp(attacks[i].name, name) == 0)
            return &attacks[i];
    fprintf(stderr, "unknown attack '%s'\n", name);
    _exit(2);
}

_Noreturn void flood_attack(struct flood *shared, const char *name, unsigned seed) {
    const struct attack *attack = attack_find(name);
    struct rlimit limit;
    flood = shared;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
    srand(seed);
    if (nice(10) < 0)
        errno = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    endpoints_tcp();
    atomic_fetch_add(&flood->ready, 1);
    for (unsigned round = 0;; round++) {
        if (round % LOOK_AGAIN == 0)
            endpoints_unix();
        for (int i = 0; i < nendpoints; i++) {
            const int fd = open_connection(&endpoints[i]);
            if (fd >= 0)
                attack->act(&endpoints[i], fd);
        }
        nap(PAUSE_NS);
    }
}
