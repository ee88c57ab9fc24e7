/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages whose receives leave source and tag open (../coll/messages/mixtures.c), and one that
 * goes around the ranks from callback to callback. */
#include "messages.h"
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include "../coll/messages/messages.h"

static void nothing(struct job *job) {
    (void)job;
}

static void mixture_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "a mixture of messages among %d", job->group->n);
}

static void mixture_call(struct job *job) {
    const int errors = check_mixture(job->group->comm, (unsigned)job->salt & 0xffffff);
    NEED(job->driver, errors == 0, "%s: %d errors", job->name, errors);
}

const struct row row_mixture = {.name = "mixture",
                                .weight = 3,
                                .scope = SCOPE_OWN,
                                .whole = true,
                                .draw = mixture_draw,
                                .call = mixture_call,
                                .check = nothing};

/* ---- From callback to callback --------------------------------------------------------------- */

struct relay {
    struct job *job;
    uint64_t token;
    rcm_work *receive, *send;
    rcm_status status;
    sem_t done;
};

static void relay_done(struct relay *relay, rcm_status status) {
    relay->status = status;
    sem_post(&relay->done);
}

static void relay_sent(void *arg, rcm_status status) {
    relay_done(arg, status);
}

static void relay_send(struct relay *relay) {
    const struct group *group = relay->job->group;
    rcm_status status = rcm_isend(group->comm, &relay->token, 1, RCM_UINT64,
                                  (group->me + 1) % group->n, tag_of(relay->job, 0), &relay->send);
    if (status == RCM_OK)
        status = rcm_work_on_complete(relay->send, relay_sent, relay);
    if (status != RCM_OK)
        relay_done(relay, status);
}

/* The first rank receives it last; the others forward it. */
static void relay_received(void *arg, rcm_status status) {
    struct relay *relay = arg;
    if (status != RCM_OK || relay->job->group->me == 0) {
        relay_done(relay, status);
        return;
    }
    relay->token++;
    relay_send(relay);
}

static void relay_wait(struct relay *relay) {
    while (sem_wait(&relay->done) != 0 && errno == EINTR)
        ;
    NEED(relay->job->driver, relay->status == RCM_OK, "%s: %s", relay->job->name,
         rcm_status_name(relay->status));
}

static void relay_begin(struct relay *relay) {
    const struct group *group = relay->job->group;
    const rcm_status status =
        rcm_irecv(group->comm, &relay->token, 1, RCM_UINT64, (group->me + group->n - 1) % group->n,
                  tag_of(relay->job, 0), &relay->receive);
    NEED(relay->job->driver,
         status == RCM_OK && rcm_work_on_complete(relay->receive, relay_received, relay) == RCM_OK,
         "%s: %s", relay->job->name, rcm_last_error());
}

static void relay_call(struct job *job) {
    struct relay relay = {.job = job};
    uint64_t first = job->salt;
    if (sem_init(&relay.done, 0, 0) != 0)
        stress_fail(job->driver, "sem_init");
    relay_begin(&relay);
    if (job->group->me == 0)
        NEED(job->driver,
             rcm_send(job->group->comm, &first, 1, RCM_UINT64, 1 % job->group->n, tag_of(job, 0),
                      NULL, NULL) == RCM_OK,
             "%s: %s", job->name, rcm_last_error());
    relay_wait(&relay);
    const uint64_t steps =
        job->group->me == 0 ? (uint64_t)job->group->n - 1 : (uint64_t)job->group->me;
    NEED(job->driver, relay.token == first + steps, "%s: it came %llu times, not %llu", job->name,
         (unsigned long long)(relay.token - first), (unsigned long long)steps);
    rcm_work_free(relay.receive);
    rcm_work_free(relay.send);
    sem_destroy(&relay.done);
}

static void relay_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "a message from callback to callback among %d",
             job->group->n);
}

const struct row row_relay = {.name = "relay",
                              .weight = 3,
                              .scope = SCOPE_ANY,
                              .whole = true,
                              .draw = relay_draw,
                              .call = relay_call,
                              .check = nothing};
