/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ports a rank has and a link goes by, and whether it may lock the memory that they need. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "../../transport/verbs/choice.h"
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

/* ---- Choice ---------------------------------------------------------------------------------- */

static struct verbs_offered port(uint8_t layer, uint64_t subnet, uint32_t speed) {
    return (struct verbs_offered){.layer = layer, .subnet = subnet, .speed = speed};
}

static void chosen(const struct verbs_offered *mine, int nmine, const struct verbs_offered *theirs,
                   int ntheirs, unsigned spread, int first, int second) {
    struct verbs_choice choice = {-1, -1};
    CHECK_EQ(verbs_choose(mine, nmine, theirs, ntheirs, spread, &choice), first >= 0);
    CHECK_EQ(choice.mine, first);
    CHECK_EQ(choice.theirs, second);
}

void case_choice(void **state) {
    (void)state;
    const struct verbs_offered ours[] = {port(2, 1, 100), port(2, 2, 200), port(1, 2, 400)};
    const struct verbs_offered rails[] = {port(2, 2, 200), port(2, 1, 400)};
    const struct verbs_offered alone[] = {port(1, 9, 100)};
    const struct verbs_offered four[] = {port(2, 1, 7), port(2, 1, 7), port(2, 1, 7),
                                         port(2, 1, 7)};
    chosen(ours, 3, rails, 2, 0, 1, 0); /* the faster rail */
    chosen(ours, 1, rails, 2, 0, 0, 1); /* the only one in common */
    chosen(ours, 3, alone, 1, 0, -1, -1);
    chosen(ours, 0, rails, 2, 0, -1, -1);
    chosen(ours + 2, 1, rails, 1, 0, -1, -1); /* the same number, of another layer */
    bool used[16] = {false};
    for (unsigned spread = 0; spread < 16; spread++) {
        struct verbs_choice choice;
        CHECK(verbs_choose(four, 4, four, 4, spread, &choice));
        used[choice.mine * 4 + choice.theirs] = true;
    }
    for (int i = 0; i < 16; i++)
        CHECK(used[i]);
}

/* ---- Ports ----------------------------------------------------------------------------------- */

/* b has the devices of that list, a has all; the sentence of a refusal, or by what they are linked.
 */
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
                "no port of rank 0 is in a subnet of rank 1's (fake1:1, fake3:1)");
    linked_with("fake9", "tcp", "");
    provider_remove();
}

/* A device that another one's name begins with is not meant, nor is a port that it does not have.
 */
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

/* Whether a process that may lock so many bytes, and is not the superuser, has the row. */
static bool has_with_locked(rlim_t bytes, char reason[256]) {
    const struct rcmi_need need = {.nranks = 3, .slots = 4, .slot_bytes = 4096};
    const struct rlimit limit = {bytes, bytes};
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    return transport_row()->probe(&need, reason, 256);
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

/* Memory for slots of both kinds of channels, to each peer, must be allowed: or it is known before
 * there is a link that the row cannot be had. */
void case_locked_memory(void **state) {
    (void)state;
    limit_ms(10000);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        provider_install(&two_devices);
        child_locked();
    }
    child_join(pid);
}
