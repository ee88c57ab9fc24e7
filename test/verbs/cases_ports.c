/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports of a rank, and the check whether the rank may lock the memory that they need. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

/* ---- Ports ----------------------------------------------------------------------------------- */

/* b has the devices of the list, a has all. by: the transport of their link, or sentence: the error
 * text. */
static void linked_with(const char *devices, const char *by, const char *sentence) {
    const struct setup setup = {.transports = by[0] ? "verbs,tcp" : "verbs"};
    struct world *world = world_new();
    struct side a, b;
    limit_ms(10000);
    setenv("RINGCOMM_VERBS_DEVICES", "fake0", 1);
    side_create(&a, world, 0, &setup);
    setenv("RINGCOMM_VERBS_DEVICES", devices, 1);
    side_create(&b, world, 1, &setup);
    unsetenv("RINGCOMM_VERBS_DEVICES");
    side_start(&a);
    side_start(&b);
    side_send(&a, 1);
    while (!atomic_load(&a.lost) && !rcmi_node_transport(a.node, 1)[0])
        nap();
    CHECK_EQ(strcmp(rcmi_node_transport(a.node, 1), by), 0);
    if (atomic_load(&a.lost)) {
        CHECK(rcmi_node_send(a.node, 1, "x", 1) < 0);
        CHECK(strstr(rcm_last_error(), sentence) != NULL);
    }
    side_destroy(&a);
    side_destroy(&b);
    world_free(world);
}

void case_ports(void **state) {
    (void)state;
    const struct provider_setup subnets = {.seed = 4, .devices = 4, .subnets = 2, .inline_max = 0};
    provider_install(&subnets);
    linked_with("fake2:1", "verbs", "");
    linked_with("fake1,fake3,fake2", "verbs", "");
    linked_with("fake1,fake3", "tcp", "");
    linked_with("fake1,fake3", "",
                "no port of rank 0 (10.0.0.0/24) is in a network of rank 1's (10.1.0.0/24)");
    linked_with("fake9", "tcp", "");
    provider_remove();
}

static void on_one_cpu(cpu_set_t *ret_before) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    CHECK_EQ(sched_getaffinity(0, sizeof *ret_before, ret_before), 0);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

/* Of two ports of one subnet both ranks take the one at their CPU's node, and close the other. */
void case_near_port(void **state) {
    (void)state;
    struct verbs_place places[2] = {{.numa = 1000}, {.numa = -1}};
    const struct provider_setup near = {.devices = 2, .inline_max = 220, .places = places};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    cpu_set_t before;
    limit_ms(10000);
    on_one_cpu(&before);
    verbs_place_of_cpus(&places[1]);
    provider_install(&near);
    pair_open(&pair, &(struct setup){.transports = "verbs"});
    CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    pair_channel(&pair, 1, &writer, &reader);
    if (places[1].numa >= 0) { /* else the system has no nodes */
        CHECK_EQ(provider_queue_pairs(0), 0);
        CHECK_EQ(provider_queue_pairs(1), 2);
    }
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    provider_remove();
}

/* With more ports than a rank uses: the nearest ones, in their order. */
void case_many_ports(void **state) {
    (void)state;
    enum { FAR = 1000 };
    struct verbs_place places[10] = {{.numa = 0}};
    const struct provider_setup many = {.devices = 10, .inline_max = 220, .places = places};
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    char reason[256];
    struct verbs_place here;
    cpu_set_t before;
    on_one_cpu(&before);
    verbs_place_of_cpus(&here);
    for (int i = 0; i < many.devices; i++)
        places[i].numa = i == 0 || i == 3 ? FAR : here.numa;
    provider_install(&many);
    CHECK(transport_row()->probe(&need, reason, sizeof reason));
    if (here.numa >= 0) /* else the system has no nodes */
        CHECK_EQ(strcmp(reason, "fake1:1, fake2:1, fake4:1, fake5:1, fake6:1, fake7:1, fake8:1, "
                                "fake9:1"),
                 0);
    CHECK_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    provider_remove();
}

/* A name does not match a device whose name begins with it, nor a port that the device does not
 * have. */
void case_names(void **state) {
    (void)state;
    static const char *const wrong[] = {"fake", "fake01", "fake0:2", "fake0:", ",", "fake1:11"};
    char reason[256];
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    const struct rcmi_transport *row = transport_row();
    provider_install(&two_devices);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("RINGCOMM_VERBS_DEVICES", wrong[i], 1);
        CHECK(!row->probe(&need, reason, sizeof reason));
        CHECK(strstr(reason, wrong[i]) != NULL);
    }
    setenv("RINGCOMM_VERBS_DEVICES", "fake1:1", 1);
    CHECK(row->probe(&need, reason, sizeof reason));
    CHECK_EQ(strcmp(reason, "fake1:1"), 0);
    setenv("RINGCOMM_VERBS_GID_INDEX", "0", 1);
    CHECK(!row->probe(&need, reason, sizeof reason));
    CHECK(strstr(reason, "RINGCOMM_VERBS_GID_INDEX") != NULL);
    unsetenv("RINGCOMM_VERBS_GID_INDEX");
    unsetenv("RINGCOMM_VERBS_DEVICES");
    provider_remove();
}

/* Whether this process can use the backend if RLIMIT_MEMLOCK is so many bytes. */
static bool has_with_locked(rlim_t bytes, char reason[256]) {
    const struct rcmi_need need = {.nranks = 3, .slots = 4, .slot_bytes = 4096};
    const struct rlimit limit = {bytes, bytes};
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    return transport_row()->probe(&need, reason, 256);
}

static bool kernel_locks_a_page(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    const bool locked = mlock(page, 4096) == 0;
    CHECK_EQ(munmap(page, 4096), 0);
    return locked;
}

/* A process that may lock memory without limit, like root outside of most containers, is exempt. */
static void child_unlimited(void) {
    char reason[256];
    const bool has = has_with_locked(0, reason);
    CHECK_EQ(has, kernel_locks_a_page());
    _exit(0);
}

static void child_locked(void) {
    enum { NOTICES = 512 * 192, SLOTS = 2 * 4 * 4096, ALL = 2 * (NOTICES + 9 * SLOTS) };
    char reason[256], expected[100];
    CHECK(geteuid() != 0 || seteuid(65534) == 0);
    CHECK(has_with_locked(ALL, reason));
    CHECK(!has_with_locked(ALL - 1, reason));
    snprintf(expected, sizeof expected, "it needs %d bytes of locked memory, %d for each peer", ALL,
             ALL / 2);
    CHECK(strstr(reason, expected) != NULL);
    _exit(0);
}

/* The limit must allow memory for slots of both kinds of channels, to each peer; otherwise the
 * backend is rejected before there is a link. */
void case_locked_memory(void **state) {
    (void)state;
    limit_ms(10000);
    for (int i = 0; i < 2; i++) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            provider_install(&two_devices);
            if (i == 0)
                child_unlimited();
            child_locked();
        }
        child_join(pid);
    }
}
