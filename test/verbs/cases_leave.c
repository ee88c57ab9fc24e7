/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that leaves: its committed messages arrive, whatever the hardware and other threads do at
 * that moment. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "cases.h"
#include "../transport/harness.h"
#include "../../transport/verbs/verbs.h"

extern const struct rcmi_transport rcmi_transport_verbs;

enum { MESSAGES = 8, LEN = 500, MOMENT = 1000 /* naps */ };

static void moment(void) {
    for (int i = 0; i < MOMENT; i++)
        nap();
}

static void leaving_open(struct pair *pair, struct rcmi_channel **ret_writer,
                         struct rcmi_channel **ret_reader) {
    const struct setup setup = {.transports = "verbs", .slots = MESSAGES, .slot_bytes = LEN};
    limit_ms(20000);
    provider_install(&two_devices);
    pair_open(pair, &setup);
    pair_channel(pair, 1, ret_writer, ret_reader);
}

static void commits(struct pair *pair, struct rcmi_channel *writer) {
    for (uint64_t number = 0; number < MESSAGES; number++) {
        fill(side_reserve(pair->a, writer), LEN, number);
        rcmi_channel_commit(writer, LEN, number);
    }
}

static void leaves(struct pair *pair, struct rcmi_channel *writer) {
    rcmi_channel_close(writer);
    rcmi_node_leave(pair->a->node, rcmi_deadline_in(10000));
    side_destroy(pair->a);
}

static void takes_all(struct pair *pair, struct rcmi_channel *reader) {
    for (uint64_t number = 0; number < MESSAGES; number++) {
        const struct rcmi_slot slot = side_peek(pair->b, reader);
        CHECK_EQ(slot.meta, number);
        CHECK(filled(slot.bytes, LEN, number));
        rcmi_channel_release(reader);
    }
}

static void leaving_close(struct pair *pair, struct rcmi_channel *reader) {
    CHECK_EQ(atomic_load(&pair->b->lost), 0);
    rcmi_channel_close(reader);
    side_destroy(pair->b);
    world_free(pair->world);
    provider_remove();
}

static void *goes_on(void *arg) {
    (void)arg;
    moment();
    provider_hold(false);
    return NULL;
}

/* The farewell arrives before the hardware's acknowledgements. */
void case_leave_unacknowledged(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    pthread_t thread;
    leaving_open(&pair, &writer, &reader);
    provider_hold(true);
    commits(&pair, writer);
    CHECK_EQ(pthread_create(&thread, NULL, goes_on, NULL), 0);
    leaves(&pair, writer);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    takes_all(&pair, reader);
    leaving_close(&pair, reader);
}

static void polling_hold(struct pair *pair, bool hold) {
    struct verbs_domain *domain = rcmi_node_domain(pair->b->node, &rcmi_transport_verbs);
    for (int i = 0; i < domain->nports; i++)
        if (hold)
            verbs_lock_take(&domain->ports[i].lock);
        else
            verbs_lock_drop(&domain->ports[i].lock);
}

/* The reader's loop handles the end while another thread of its rank is about to poll. */
void case_leave_during_poll(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    leaving_open(&pair, &writer, &reader);
    commits(&pair, writer);
    takes_all(&pair, reader); /* consumes the events: the loop no longer polls */
    moment();
    for (int i = 0; i < 100; i++)
        pair_drive(&pair);
    polling_hold(&pair, true);
    commits(&pair, writer);
    leaves(&pair, writer);
    moment();
    polling_hold(&pair, false);
    moment();
    takes_all(&pair, reader);
    leaving_close(&pair, reader);
}
