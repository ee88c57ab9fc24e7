/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank with many peers: the cost of one peer does not grow with the number of the others. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "cases.h"
#include "harness.h"

enum { PEERS = 4000, SAMPLE = 10, MOST_KB = 2000 };

static rcm_status unknown(void *arg, int peer, const void **ret_blob, size_t *ret_len) {
    (void)arg;
    (void)ret_blob;
    (void)ret_len;
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "rank %d has no address", peer);
}

/* Memory that this process has accessed since forget_touched, in KiB; -1 where the kernel does not
 * report it. It includes a walk through other peers' data, however fast. */
static int64_t touched(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long kb = -1;
    while (file && kb < 0 && fgets(line, sizeof line, file))
        (void)sscanf(line, "Referenced: %ld", &kb);
    if (file)
        (void)fclose(file);
    return kb;
}

/* The processor sets the "referenced" bit only when it translates an address. Unmapping many pages
 * drops its cached translations. */
static void forget_translations(void) {
    const size_t size = 1 << 20;
    void *pages =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK_EQ(munmap(pages, size), 0);
}

static bool forget_touched(void) {
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    const bool forgot = fd >= 0 && write(fd, "1", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    forget_translations();
    return forgot;
}

static struct rcmi_channel *open_to(struct rcmi_node *node, int peer) {
    const int readers[1] = {peer};
    struct rcmi_channel *channel = NULL;
    CHECK_EQ(rcmi_channel_open_writer(node, 7, 1, readers, 1, &channel), RCM_OK);
    return channel;
}

/* The least of SAMPLE measurements: other activity of the process affects only some of them. */
static int64_t open_sample(struct rcmi_node *node, struct rcmi_channel **channels, int first) {
    int64_t least = INT64_MAX;
    for (int i = first; i < first + SAMPLE; i++) {
        const bool counts = forget_touched();
        channels[i] = open_to(node, i + 1);
        const int64_t kb = counts ? touched() : -1;
        least = kb < least ? kb : least;
    }
    return least;
}

/* Opening one more channel does not read the others. The channels are to peers that cannot be
 * reached: they fail, and stay until they are closed. */
void case_many_peers(void **state) {
    (void)state;
    struct rcmi_node_config config = {.rank = 0,
                                      .nranks = PEERS + 1,
                                      .job = 4711,
                                      .host_id = "test-host",
                                      .transports = link_transport(),
                                      .iface = "lo",
                                      .ports = "",
                                      .slot_bytes = 4096,
                                      .slots = 4,
                                      .lookup = unknown};
    struct rcmi_channel **channels = calloc(PEERS, sizeof(struct rcmi_channel *));
    struct rcmi_node *node = NULL;
    limit_ms(30000);
    CHECK(channels);
    CHECK_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0); /* small pages, no huge ones */
    CHECK_EQ(rcmi_node_create(&config, &node), RCM_OK);
    CHECK_EQ(rcmi_node_start(node), RCM_OK);
    const int64_t first = open_sample(node, channels, 0);
    for (int i = SAMPLE; i < PEERS - SAMPLE; i++)
        channels[i] = open_to(node, i + 1);
    const int64_t last = open_sample(node, channels, PEERS - SAMPLE);
    printf("a channel touches %lld KiB among few, %lld KiB among %d\n", (long long)first,
           (long long)last, PEERS);
    for (int i = 0; i < PEERS; i++)
        rcmi_channel_close(channels[i]);
    rcmi_node_destroy(node);
    CHECK_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    free(channels);
    CHECK(last - first < MOST_KB);
}
