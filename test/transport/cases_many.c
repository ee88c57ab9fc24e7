/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank with very many peers: what one of them costs does not grow with the others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cases.h"
#include "harness.h"

enum { PEERS = 16000, SAMPLE = 2000, MOST = 5 };

static rcm_status unknown(void *arg, int peer, const void **ret_blob, size_t *ret_len) {
    (void)arg;
    (void)ret_blob;
    (void)ret_len;
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "rank %d has no address", peer);
}

static int by_value(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int64_t median(int64_t *times, int n) {
    qsort(times, (size_t)n, sizeof *times, by_value);
    return times[n / 2];
}

/* What all threads had of a processor, so that other load does not matter. */
static int64_t used_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The channels to peers that cannot be reached: they fail, and stay until they are closed. */
static void open_all(struct rcmi_node *node, struct rcmi_channel **channels, int64_t *times) {
    for (int peer = 0; peer < PEERS; peer++) {
        const int readers[1] = {peer + 1};
        const int64_t begin = used_ns();
        CHECK_EQ(rcmi_channel_open_writer(node, 7, 1, readers, 1, &channels[peer]), RCM_OK);
        times[peer] = used_ns() - begin;
    }
}

/* One more is opened as fast when there are 16,000 as when there were few. */
void case_many_peers(void **state) {
    (void)state;
    struct rcmi_node_config config = {.rank = 0,
                                      .nranks = PEERS + 1,
                                      .job = 4711,
                                      .host_id = "test-host",
                                      .transports = test_transport,
                                      .iface = "lo",
                                      .ports = "",
                                      .slot_bytes = 4096,
                                      .slots = 4,
                                      .lookup = unknown};
    struct rcmi_channel **channels = calloc(PEERS, sizeof(struct rcmi_channel *));
    int64_t *times = calloc(PEERS, sizeof *times);
    struct rcmi_node *node = NULL;
    limit_ms(30000);
    CHECK(channels && times);
    CHECK_EQ(rcmi_node_create(&config, &node), RCM_OK);
    CHECK_EQ(rcmi_node_start(node), RCM_OK);
    open_all(node, channels, times);
    const int64_t first = median(times, SAMPLE), last = median(times + PEERS - SAMPLE, SAMPLE);
    printf("a channel takes %lld ns to open among few, %lld ns among %d\n", (long long)first,
           (long long)last, PEERS);
    CHECK(last < MOST * first);
    for (int peer = 0; peer < PEERS; peer++)
        rcmi_channel_close(channels[peer]);
    rcmi_node_destroy(node);
    free(channels);
    free(times);
}
