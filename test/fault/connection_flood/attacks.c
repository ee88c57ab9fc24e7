/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers. Each way is a function that does one thing to one door; a process does it to all of
 * them in turn, again and again. Doors are TCP ports and the Unix names on which the ranks listen
 * (found by their processes' descriptors: others on this machine are left in peace).
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

#define HELD_MAX   1000 /* connections held at each door */
#define NAMES_MAX  8
#define PAUSE_NS   200000
#define LOOK_AGAIN 200 /* rounds between two looks for Unix names */

struct door {
    struct sockaddr_storage addr;
    socklen_t len;
    int *held, nheld;
};

static struct siege *siege;
static struct door doors[SIEGE_DOORS + NAMES_MAX];
static int ndoors;

static void nap(long ns) {
    const struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

static void random_bytes(void *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(rand() >> 7);
}

/* ---- Doors ----------------------------------------------------------------------------------- */

static void doors_tcp(void) {
    for (int i = 0; i < SIEGE_DOORS; i++) {
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)(siege->port + i)),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        memcpy(&doors[i].addr, &in, sizeof(in));
        doors[i].len = sizeof(in);
    }
    ndoors = SIEGE_DOORS;
}

/* Has one of our ranks a descriptor of this inode? */
static bool is_ours(unsigned long inode) {
    char path[300], link[64], want[64];
    snprintf(want, sizeof(want), "socket:[%lu]", inode);
    for (int r = 0; r < SIEGE_RANKS; r++) {
        snprintf(path, sizeof(path), "/proc/%d/fd", atomic_load(&siege->rank_pid[r]));
        DIR *dir = atomic_load(&siege->rank_pid[r]) ? opendir(path) : NULL;
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

static bool door_known(const char *name) {
    for (int i = SIEGE_DOORS; i < ndoors; i++)
        if (strcmp(((struct sockaddr_un *)&doors[i].addr)->sun_path + 1, name) == 0)
            return true;
    return false;
}

static void doors_unix(void) {
    char line[512], name[128];
    unsigned long inode;
    FILE *file = fopen("/proc/net/unix", "re");
    while (file && fgets(line, sizeof(line), file) && ndoors < SIEGE_DOORS + NAMES_MAX) {
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu @%107s", &inode, name) != 2 ||
            strncmp(name, "ringcomm-", 9) != 0 || door_known(name) || !is_ours(inode))
            continue;
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        memcpy(un.sun_path + 1, name, strlen(name));
        memcpy(&doors[ndoors].addr, &un, sizeof(un));
        doors[ndoors++].len =
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    }
    if (file)
        fclose(file);
}

/* A connection, or -1. */
static int knock(const struct door *door) {
    const struct timeval patience = {.tv_usec = 100000};
    int fd = socket(door->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&door->addr, door->len) != 0) {
        close(fd);
        return -1;
    }
    atomic_fetch_add(&siege->hits, 1);
    return fd;
}

/* All of it, or as much as is taken; the end is as good as any other. */
static void say(int fd, const void *bytes, size_t len) {
    for (size_t done = 0; done < len;) {
        const ssize_t n = send(fd, (const uint8_t *)bytes + done, len - done, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        done += (size_t)n;
    }
}

/* Keeps it open; those that were closed at the other end make room. */
static void hold(struct door *door, int fd, int most) {
    if (!door->held)
        door->held = calloc(HELD_MAX, sizeof(*door->held));
    for (int i = 0; i < door->nheld && door->nheld >= most; i++) {
        struct pollfd entry = {.fd = door->held[i], .events = POLLRDHUP};
        if (poll(&entry, 1, 0) > 0) {
            close(door->held[i]);
            door->held[i--] = door->held[--door->nheld];
        }
    }
    if (door->held && door->nheld < most)
        door->held[door->nheld++] = fd;
    else
        close(fd);
}

/* ---- Ways ------------------------------------------------------------------------------------ */

/* The whole of the proof, of another secret. */
static void way_wrong(struct door *door, int fd) {
    uint8_t hello[41] = "RCMAUTH1I", answer[41], proof[32];
    (void)door;
    random_bytes(hello + 9, 32);
    random_bytes(proof, sizeof(proof));
    say(fd, hello, sizeof(hello));
    if (recv(fd, answer, sizeof(answer), MSG_WAITALL) == (ssize_t)sizeof(answer)) {
        say(fd, proof, sizeof(proof));
        (void)!recv(fd, answer, sizeof(answer), 0);
    }
    close(fd);
}

static void way_scan(struct door *door, int fd) {
    (void)door;
    close(fd);
}

static void way_noise(struct door *door, int fd) {
    static uint8_t bytes[1 << 20];
    (void)door;
    if (!bytes[0] && !bytes[1])
        random_bytes(bytes, sizeof(bytes));
    bytes[0] = (uint8_t)rand();
    bytes[1] = (uint8_t)(rand() | 1);
    say(fd, bytes, sizeof(bytes));
    close(fd);
}

static void way_silent(struct door *door, int fd) {
    hold(door, fd, HELD_MAX);
}

static size_t put(uint8_t *at, uint64_t value, size_t len) {
    memcpy(at, &value, len);
    return len;
}

/* What a rank says after the proof, of a job that nobody can know. */
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

static void way_half(struct door *door, int fd) {
    uint8_t bytes[128] = "RCMAUTH1I";
    size_t len = 41;
    switch (rand() % 3) {
    case 0:
        random_bytes(bytes + 9, 32);
        break;
    case 1:
        len = greeting(bytes, 1, 0, SIEGE_RANKS);
        break;
    default:
        len = siege->recorded_len < sizeof(bytes) ? siege->recorded_len : sizeof(bytes);
        memcpy(bytes, siege->recorded, len);
        break;
    }
    say(fd, bytes, 1 + (size_t)rand() % (len - 1));
    hold(door, fd, HELD_MAX / 4);
}

/* Says again what somebody said who knew the secret. */
static void way_replay(struct door *door, int fd) {
    uint8_t answer[256];
    (void)door;
    say(fd, siege->recorded, siege->recorded_len);
    (void)!recv(fd, answer, sizeof(answer), 0);
    close(fd);
}

/* Numbers that are too large, for either protocol. */
static void way_lengths(struct door *door, int fd) {
    static const uint64_t large[] = {UINT64_MAX,          (uint64_t)1 << 63, (uint64_t)1 << 32,
                                     (uint64_t)INT64_MAX, 1000000000,        65536};
    static const uint8_t operations[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 14, 18, 19};
    const uint64_t n = large[(size_t)rand() % 6];
    uint8_t bytes[64] = {0, 0xce, 0xf7, 0x85, 0x3c};
    size_t len = 5;
    (void)door;
    if (rand() % 3 == 0) {
        len = greeting(bytes, (uint32_t)n, (uint32_t)rand() % 5, (uint32_t)(n >> 32));
    } else {
        bytes[len++] = operations[(size_t)rand() % sizeof(operations)];
        len += put(bytes + len, n, 8);
        random_bytes(bytes + len, 40);
        len += 40;
    }
    say(fd, bytes, len);
    close(fd);
}

static const struct way {
    const char *name;
    void (*act)(struct door *door, int fd);
} ways[] = {
    {"wrong", way_wrong}, {"scan", way_scan},     {"noise", way_noise},     {"silent", way_silent},
    {"half", way_half},   {"replay", way_replay}, {"lengths", way_lengths},
};

const char *const siege_attacks[] = {"wrong", "scan",   "noise",   "silent",
                                     "half",  "replay", "lengths", NULL};

/* ---- One after the other --------------------------------------------------------------------- */

static const struct way *way_find(const char *name) {
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    fprintf(stderr, "there is no attack %s\n", name);
    _exit(2);
}

_Noreturn void siege_attack(struct siege *shared, const char *name, unsigned seed) {
    const struct way *way = way_find(name);
    struct rlimit limit;
    siege = shared;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
    srand(seed);
    if (nice(10) < 0)
        errno = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    doors_tcp();
    atomic_fetch_add(&siege->ready, 1);
    for (unsigned round = 0;; round++) {
        if (round % LOOK_AGAIN == 0)
            doors_unix();
        for (int i = 0; i < ndoors; i++) {
            const int fd = knock(&doors[i]);
            if (fd >= 0)
                way->act(&doors[i], fd);
        }
        nap(PAUSE_NS);
    }
}
