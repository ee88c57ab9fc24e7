/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The speed of a transport between two processes of this host, next to a bare TCP socket pair in
 * the same run:
 *
 *     speed shm|tcp
 *
 * Prints the one-way time of small messages (half a round trip, spinning), the rate of streams of
 * 128 KiB slots in one and in both directions, and the slowest message of a mixture of small and
 * middle sizes, which shows stalls. Not a test: it judges nothing.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "clock.h"
#include "fd.h"
#include "harness.h"

#define SLOT   131072
#define TRIPS  20000
#define STREAM ((int64_t)1 << 29)

static struct rcmi_channel *in, *out;
static struct side *me;
static int bare = -1;
static uint8_t *bulk; /* SLOT bytes to send from or receive into */

/* ---- Over channels ------------------------------------------------------------------------- */

static void spin_drive(void) {
    if (!rcmi_node_progress(me->node) && rcmi_deadline_passed(limit()))
        CHECK(!"time is over");
}

static void channel_send(size_t len) {
    void *slot = NULL;
    while (reserve_slot(out, &slot) == RCM_AGAIN)
        spin_drive();
    rcmi_channel_commit(out, len, 0);
}

static void channel_receive(size_t len) {
    struct rcmi_slot slot = {0};
    while (rcmi_channel_peek(in, &slot) == RCM_AGAIN)
        spin_drive();
    CHECK_EQ(slot.len, len);
    rcmi_channel_release(in);
}

/* Sends and receives so many bytes, interleaved as they are ready. */
static void channel_stream(int64_t send, int64_t receive, bool straight) {
    void *slot = NULL;
    struct rcmi_slot got;
    if (straight)
        post(in, bulk, SLOT);
    while (send > 0 || receive > 0) {
        bool idle = true;
        if (send > 0 && straight && zero_copy(out, bulk, SLOT, 0, false) == RCM_OK) {
            send -= SLOT;
            idle = false;
        } else if (send > 0 && !straight && reserve_slot(out, &slot) == RCM_OK) {
            rcmi_channel_commit(out, SLOT, 0);
            send -= SLOT;
            idle = false;
        }
        if (receive > 0 && rcmi_channel_peek(in, &got) == RCM_OK) {
            rcmi_channel_release(in);
            if (straight)
                post(in, bulk, SLOT);
            receive -= SLOT;
            idle = false;
        }
        if (idle)
            spin_drive();
    }
    (void)rcmi_channel_post_receive(in, NULL);
    while (!rcmi_channel_completed(out, rcmi_channel_sent(out)))
        spin_drive();
}

/* ---- Over the bare socket ------------------------------------------------------------------ */

static void bare_send(size_t len) {
    for (size_t done = 0, n = 0; done < len; done += n)
        while (rcmi_fd_write(bare, bulk + done, len - done, &n) == RCM_AGAIN)
            ;
}

static void bare_receive(size_t len) {
    for (size_t done = 0, n = 0; done < len; done += n)
        while (rcmi_fd_read(bare, bulk + done, len - done, &n) == RCM_AGAIN)
            ;
}

static void bare_stream(int64_t send, int64_t receive) {
    size_t n;
    while (send > 0 || receive > 0) {
        if (send > 0 && rcmi_fd_write(bare, bulk, SLOT, &n) == RCM_OK)
            send -= (int64_t)n;
        if (receive > 0 && rcmi_fd_read(bare, bulk, SLOT, &n) == RCM_OK)
            receive -= (int64_t)n;
    }
}

/* ---- Measurements: both processes run the same steps --------------------------------------- */

static int64_t trips(bool first, bool over_socket, size_t len, int count) {
    int64_t start = rcmi_now_ns();
    for (int i = 0; i < count; i++) {
        if (first && over_socket)
            bare_send(len);
        else if (first)
            channel_send(len);
        if (over_socket)
            bare_receive(len);
        else
            channel_receive(len);
        if (!first && over_socket)
            bare_send(len);
        else if (!first)
            channel_send(len);
    }
    return (rcmi_now_ns() - start) / count / 2;
}

static void report_trips(bool first, size_t len) {
    int count = len > 10000 ? TRIPS / 20 : TRIPS;
    int64_t ours = 0, theirs = 0;
    for (int round = 0; round < 3; round++) { /* alternately; the best of each counts */
        int64_t t = trips(first, false, len, count);
        ours = round == 0 || t < ours ? t : ours;
        t = trips(first, true, len, count);
        theirs = round == 0 || t < theirs ? t : theirs;
    }
    if (first)
        printf("one way, %6zu B        %8.2f us   bare tcp %8.2f us\n", len, ours / 1e3,
               theirs / 1e3);
}

static double rate(int64_t start, int64_t bytes) {
    return (double)bytes / (double)(rcmi_now_ns() - start);
}

/* kind 0: channel slots, 1: zero-copy send and posted receive, 2: bare. */
static double stream_rate(bool first, int kind, bool both) {
    int64_t send = first || both ? STREAM : 0, receive = !first || both ? STREAM : 0;
    trips(first, false, 8, 10); /* synchronises the start */
    int64_t start = rcmi_now_ns();
    if (kind == 2)
        bare_stream(send, receive);
    else
        channel_stream(send, receive, kind == 1);
    trips(first, false, 8, 1);
    return rate(start, send + receive);
}

static void report_stream(bool first, bool both) {
    double best[3] = {0};
    for (int round = 0; round < 3; round++)
        for (int kind = 0; kind < 3; kind++) {
            double r = stream_rate(first, kind, both);
            best[kind] = r > best[kind] ? r : best[kind];
        }
    if (first)
        printf("stream, 128 KiB, %s %6.2f GB/s, zero-copy send and posted receive %6.2f, bare tcp "
               "%6.2f\n",
               both ? "both ways" : "one way  ", best[0], best[1], best[2]);
}

/* Returns the slowest of many exchanges: a few small messages, then a middle one in both directions
 * at once. Windows and delayed acknowledgements can stall such a stream. */
static void report_stalls(bool first, bool over_socket) {
    static const int64_t sizes[] = {0, 131072, 0, 262144, 0, 0, 524288, 131072};
    int64_t slowest = 0, slow = 0, slowest_len = 0;
    for (int i = 0; i < 8000; i++) {
        int64_t len = sizes[i % 8], start = rcmi_now_ns();
        if (over_socket)
            bare_stream(len, len);
        else
            channel_stream(len, len, i % 3 == 0);
        trips(first, over_socket, 8, 3);
        int64_t t = rcmi_now_ns() - start;
        slowest_len = t > slowest ? len : slowest_len;
        slowest = t > slowest ? t : slowest;
        slow += t > 5000000;
    }
    if (first)
        printf("slowest of 8000 mixed: %8.2f ms (%lld B), %lld above 5 ms   (%s)\n",
               (double)slowest / 1e6, (long long)slowest_len, (long long)slow,
               over_socket ? "bare tcp" : test_transport);
}

static void measure(struct side *side, bool first) {
    const int readers[1] = {first ? 1 : 0};
    uint32_t own = first ? 0 : 1;
    me = side;
    bulk = aligned_alloc(4096, SLOT);
    memset(bulk, 1, SLOT);
    CHECK_EQ(rcmi_channel_open_writer(side->node, 3, own, readers, 1, &out), RCM_OK);
    CHECK_EQ(rcmi_channel_open_reader(side->node, 3, 1 - own, readers[0], &in), RCM_OK);
    side_ready(side, out);
    side_ready(side, in);
    report_trips(first, 8);
    report_trips(first, 1024);
    report_trips(first, 65536);
    report_trips(first, SLOT);
    report_stream(first, false);
    report_stream(first, true);
    report_stalls(first, false);
    report_stalls(first, true);
    trips(first, false, 8, 10);
    rcmi_channel_close(in);
    rcmi_channel_close(out);
    CHECK_EQ(rcmi_node_farewell(side->node, limit(), NULL), RCM_OK);
    side_destroy(side);
    free(bulk);
}

static struct rcmi_sockaddr bare_addr;

static void child_measure(struct side *side) {
    CHECK_EQ(rcmi_connect_start(&bare_addr, &bare), RCM_OK);
    while (!atomic_load(&side->world->address[0].len))
        nap();
    side_start(side);
    measure(side, false);
}

int main(int argc, char **argv) {
    struct setup setup = {.slot_bytes = SLOT, .slots = 4};
    struct side side;
    int listener;
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_transport = argc > 1 ? argv[1] : "tcp";
    limit_ms(300000);
    CHECK_EQ(rcmi_resolve("127.0.0.1", 0, 0, &bare_addr), RCM_OK);
    CHECK_EQ(rcmi_listen(&bare_addr, &listener), RCM_OK);
    struct world *world = world_new();
    pid_t child = child_start(world, 1, &setup, child_measure);
    while (rcmi_accept(listener, &bare) == RCM_AGAIN)
        nap();
    side_create(&side, world, 0, &setup);
    while (!atomic_load(&world->address[1].len))
        nap();
    side_start(&side);
    measure(&side, true);
    child_join(child);
    world_free(world);
    return 0;
}
