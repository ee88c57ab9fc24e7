/* SPDX-License-Identifier: BSD-3-Clause */
/* See emulated_machines.h. */
#include "emulated_machines.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define SHARED       .transport = "auto", .devices = 1, .plane = PLANE_DEVICE
#define OWN          .transport = "auto", .devices = 8, .plane = PLANE_DEVICE
#define TWO          .transport = "auto", .devices = 2

const struct machine machines_plain[] = {
    {"two ranks, one device", SHARED, .ranks = 2},
    {"three ranks, one device", SHARED, .ranks = 3},
    {"five ranks, one device", SHARED, .ranks = 5},
    {"eight ranks, one device", SHARED, .ranks = 8},
    {"two devices", OWN, .ranks = 2},
    {"three devices", OWN, .ranks = 3},
    {"five devices", OWN, .ranks = 5},
    {"eight devices", OWN, .ranks = 8},
    {"three hosts", SHARED, .ranks = 8, .hosts = 3},
    {"three hosts, devices", OWN, .ranks = 5, .hosts = 3},
    {"tcp alone", .transport = "tcp", .devices = 1, .plane = PLANE_EITHER, .ranks = 2},
};
const size_t machines_plain_count = COUNT(machines_plain);

const struct machine machines_threads[] = {
    {"threads", SHARED, .ranks = 2, .threads = true},
    {"threads, devices", OWN, .ranks = 3, .threads = true},
#ifdef HAS_VERBS
    {"threads, RDMA", .transport = "verbs,shm,tcp", .devices = 1, .plane = PLANE_EITHER, .ranks = 6,
     .hosts = 3, .threads = true},
#endif
};
const size_t machines_threads_count = COUNT(machines_threads);

const struct machine machines_hostile[] = {
    {"delayed operations", SHARED, .ranks = 5, .environment = "FAKECUDA_JITTER=200"},
    {"one hardware queue", SHARED, .ranks = 2, .environment = "FAKECUDA_QUEUES=1"},
    {"lazy submission", SHARED, .ranks = 3, .environment = "FAKECUDA_LAZY=1"},
    {"synchronous allocation", SHARED, .ranks = 2, .environment = "FAKECUDA_SYNCALLOC=1"},
    {"serial host functions", SHARED, .ranks = 2, .environment = "FAKECUDA_HOSTFN=serial"},
    {"delayed host functions", SHARED, .ranks = 2, .environment = "FAKECUDA_HOSTFN=delay=3000"},
    {"exclusive kernels", SHARED, .ranks = 3, .environment = "FAKECUDA_EXCLUSIVE=1"},
    {"weak stores", SHARED, .ranks = 3, .environment = "FAKECUDA_WEAK=1 FAKECUDA_SEED=5"},
    {"shared blocks", SHARED, .ranks = 3, .environment = "FAKECUDA_SUBALLOC=1"},
    {"handles of shared blocks", SHARED, .ranks = 3, .environment = "FAKECUDA_SUBALLOC=2"},
    {"sm_80", SHARED, .ranks = 2, .environment = "FAKECUDA_CC=80"},
    {"slow handles", SHARED, .ranks = 2, .environment = "FAKECUDA_SLOW=cuIpcOpenMemHandle:300"},
    {"one visible device per rank", OWN, .ranks = 3, .each = "FAKECUDA_VISIBLE=%d"},
    {"another order of devices per rank", TWO, .ranks = 2, .each = "FAKECUDA_VISIBLE=%d,%d",
     .plane = PLANE_DEVICE},
    {"overlapping visible devices", OWN, .ranks = 3, .each = "FAKECUDA_VISIBLE=%d,%d"},
    {"no peer access", TWO, .ranks = 2, .environment = "FAKECUDA_NOPEER=1", .plane = PLANE_PINNED},
    {"no peer access, shared", TWO, .ranks = 3, .environment = "FAKECUDA_NOPEER=1",
     .plane = PLANE_EITHER},
    {"MIG", TWO, .ranks = 2, .environment = "FAKECUDA_MIG=1", .each = "FAKECUDA_VISIBLE=%d",
     .plane = PLANE_PINNED},
    {"peer traffic lost", TWO, .ranks = 2, .environment = "FAKECUDA_ACS=1", .plane = PLANE_PINNED},
    {"devices of other containers", TWO, .ranks = 2, .environment = "FAKECUDA_ABSENT=1",
     .each = "FAKECUDA_VISIBLE=%d", .plane = PLANE_PINNED},
    {"equal pids", TWO, .ranks = 2, .environment = "FAKECUDA_PID=1", .plane = PLANE_PINNED},
    {"cuIpcGetMemHandle fails", TWO, .ranks = 2, .each = "FAKECUDA_FAIL=cuIpcGetMemHandle:1:801",
     .plane = PLANE_EITHER},
    {"cuIpcOpenMemHandle fails", TWO, .ranks = 2, .each = "FAKECUDA_FAIL=cuIpcOpenMemHandle:1:205",
     .plane = PLANE_EITHER},
};
const size_t machines_hostile_count = COUNT(machines_hostile);

/* Unsets everything that the tables above and the failure cases may set. */
static void forget(void) {
    static const char *const names[] = {"JITTER", "QUEUES",    "LAZY",   "SYNCALLOC", "HOSTFN",
                                        "WEAK",   "EXCLUSIVE", "SEED",   "SUBALLOC",  "CC",
                                        "SLOW",   "VISIBLE",   "NOPEER", "MIG",       "ACS",
                                        "ABSENT", "PID",       "FAIL",   "DEVICES"};
    for (size_t i = 0; i < COUNT(names); i++) {
        char name[64];
        snprintf(name, sizeof name, "FAKECUDA_%s", names[i]);
        (void)unsetenv(name);
    }
}

static void set_all(const char *environment) {
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", environment ? environment : "");
    for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        setenv(word, value, 1);
    }
}

void machine_enter(const struct machine *s) {
    char devices[16];
    forget();
    snprintf(devices, sizeof devices, "%d", s->devices);
    setenv("FAKECUDA_DEVICES", devices, 1);
    set_all(s->environment);
}

/* The first %d becomes the rank's device, a second one the next device. */
static void numbers_put(const char *each, int device, int devices, char *text, size_t cap) {
    size_t used = 0;
    for (const char *at = each; *at && used + 12 < cap;) {
        if (strncmp(at, "%d", 2) != 0) {
            text[used++] = *at++;
            continue;
        }
        used += (size_t)snprintf(text + used, cap - used, "%d", device);
        device = (device + 1) % devices;
        at += 2;
    }
    text[used] = '\0';
}

void machine_enter_rank(const struct machine *s, int rank) {
    char text[256];
    if (!s->each)
        return;
    numbers_put(s->each, rank % s->devices, s->devices, text, sizeof text);
    set_all(text);
}
