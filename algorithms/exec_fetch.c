/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A broadcast to one reader of the root's machine may be fetched instead of going through slots:
 * the reader copies the vector out of the root's memory (rcmi_channel_fetch), one copy instead
 * of two. What is faster depends on the machine, on where its cores are, and on the size; only the
 * reader can tell, so the reader decides, and the root follows when it begins.
 *
 *   reader                                    root
 *   measures; says which sizes it would
 *   rather fetch (rcmi_channel_wish)    -->   looks, when a run begins
 *                                       <--   one message, which says where the vector is
 *   fetches it,                         <->   copies pieces too, if both have a core each
 *   gives the message back              -->   is done
 *   or cannot: says so, gives it back   -->   sends it by slots after all, as it does from then on
 *
 * The price is that the root waits for its reader, and that nothing else goes by these channels
 * meanwhile. The other way the message comes by slots, and the reader sees that it does. Beside a
 * small vector the clock is dear, so of those only some are measured.
 *
 * Not here: how another one's memory is read (the transport's), messages (api/p2p_fetch.c).
 */
#include <stdlib.h>
#include <string.h>
#include "exec_internal.h"

#define FETCH_MIN    ((size_t)8 << 10)
#define MEASURED_MIN ((size_t)128 << 10) /* larger vectors are measured all */

/* In the wish: a bit for each size of rcmi_rows_size, and */
#define WISH_NONE (UINT64_C(1) << 63) /* it cannot be done */

static size_t run_bytes(const struct rcmi_run *run) {
    return run->bind.count * run->element_bytes;
}

static uint64_t run_wish_bit(const struct rcmi_run *run) {
    return UINT64_C(1) << rcmi_rows_size(run_bytes(run));
}

bool rcmi_run_may_fetch(const struct rcmi_run *run, bool in_place) {
    const struct rcmi_plan *plan = run->bind.plan;
    return plan->collective == RCM_BROADCAST && plan->nchannels == 1 && plan->nranks == 2 &&
           run->exec->config.shape->nhosts == 1 && in_place &&
           run->exec->config.fetch != RCMI_FETCH_NEVER && run_bytes(run) >= FETCH_MIN;
}

/* Are all channels this run's, whose slices would go by several? */
static bool run_has_turn(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->stripes; i++)
        if (run->ports[i].end->serving != run->ports[i].turn)
            return false;
    return true;
}

/* Places for slices, which do not come. */
static void run_withdraw(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->stripes; i++)
        rcmi_port_withdraw(&run->ports[i]);
}

/* Hands on the channels: no lane has anything to do any more. */
static void run_fetch_over(struct rcmi_run *run, bool *moved) {
    for (uint32_t i = 0; i < run->stripes; i++)
        run->ports[i].end->serving++;
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++)
        run->lanes[i].slice = run->nslices;
    run->fetch = RCMI_RUN_BY_SLOTS;
    run->results_ns = 0; /* they were not written as it was chosen */
    run->exec->steps_done++;
    *moved = true;
}

/* ---- The root -------------------------------------------------------------------------------- */

static rcm_status run_offer(struct rcmi_run *run, bool *moved) {
    struct rcmi_port *port = &run->ports[0];
    struct rcmi_channel *channel = port->end->channel;
    const uint64_t wished = rcmi_channel_wished(channel);
    const uint64_t from = (uint64_t)(uintptr_t)run->base[RCMI_OUT];
    void *slot;
    run->fetch = RCMI_RUN_BY_SLOTS;
    if (wished & WISH_NONE || !(wished & run_wish_bit(run)) || !run_has_turn(run) ||
        port->end->nkept > 0 || rcmi_channel_reserve(channel, &slot) != RCM_OK)
        return RCM_OK; /* kept: the slot may hold an answer that is not read yet */
    memcpy(slot, &from, sizeof from);
    rcmi_channel_commit(channel, sizeof from, run->bind.meta | RCMI_META_ELSEWHERE);
    port->sent = rcmi_channel_sent(channel);
    run->lanes[0].waits_for = port->end;
    run->fetch = RCMI_RUN_OFFERED;
    *moved = true;
    return RCM_AGAIN;
}

static rcm_status run_await_reader(struct rcmi_run *run, bool *moved) {
    const struct rcmi_port *port = &run->ports[0];
    if (rcmi_channel_assist(port->end->channel))
        *moved = true;
    if (!rcmi_channel_taken(port->end->channel, port->sent))
        return RCM_AGAIN;
    if (rcmi_channel_wished(port->end->channel) & WISH_NONE)
        run->fetch = RCMI_RUN_BY_SLOTS;
    else
        run_fetch_over(run, moved);
    return RCM_OK;
}

/* ---- The reader ------------------------------------------------------------------------------ */

static void run_wish(const struct rcmi_run *run, bool fetched) {
    struct rcmi_end *end = run->ports[0].end;
    const uint64_t bit = run_wish_bit(run);
    const uint64_t wish = fetched ? end->wish | bit : end->wish & ~bit;
    if (wish != end->wish && !(end->wish & WISH_NONE) && rcmi_channel_wish(end->channel, wish))
        end->wish = wish;
}

/* What is known of vectors of this size; NULL: no memory for it. */
static struct rcmi_rows *run_rows(const struct rcmi_run *run) {
    struct rcmi_end *end = run->ports[0].end;
    if (!end->fetches)
        end->fetches = calloc(RCMI_ROWS_SIZES, sizeof *end->fetches);
    return end->fetches ? &end->fetches[rcmi_rows_size(run_bytes(run))] : NULL;
}

static bool run_may_pass(const struct rcmi_run *run, const struct rcmi_rows *rows) {
    return rows && run_bytes(run) <= MEASURED_MIN && rcmi_rows_may_pass(rows);
}

/* Which way shall the next one of this size come? The faster one, while they pass unmeasured. */
static void run_wish_next(const struct rcmi_run *run) {
    struct rcmi_rows *rows = run_rows(run);
    const bool always = run->exec->config.fetch == RCMI_FETCH_ALWAYS;
    if (!rows)
        return;
    const int way = run_may_pass(run, rows) ? rows->faster.way : rcmi_rows_way(rows);
    run_wish(run, always || way == RCMI_FETCH_ALWAYS);
}

/* One comes. */
static void run_measure(struct rcmi_run *run) {
    struct rcmi_rows *rows = run_rows(run);
    if (run->ports[0].end->wish & WISH_NONE)
        return;
    if (run_may_pass(run, rows)) {
        rcmi_rows_pass(rows);
        run_wish_next(run);
    } else {
        run->began_ns = rcmi_now_ns();
    }
}

/* What was seen began when the root had sent the first slice: the time that took is counted too. */
void rcmi_run_fetch_learn(struct rcmi_run *run, enum rcmi_fetching way) {
    struct rcmi_rows *rows = run_rows(run);
    float cost = (float)(rcmi_now_ns() - run->began_ns) * 1024.0f / (float)run_bytes(run);
    if (way == RCMI_FETCH_NEVER)
        cost *= (float)(run->nslices + 1) / (float)run->nslices;
    if (rows)
        rcmi_rows_learn(rows, (int)way, cost);
    run->began_ns = 0;
    run_wish_next(run);
}

/* Slices of other stripes may come before the first one's channel has its turn. */
static bool run_is_untouched(const struct rcmi_run *run) {
    for (uint32_t i = 0; i < run->bind.plan->nlanes * run->stripes; i++)
        if (run->lanes[i].slice != i % run->stripes)
            return false;
    return true;
}

/* Looks at the first message, before the lanes do: how does it come? */
static void run_look(struct rcmi_run *run) {
    const struct rcmi_end *end = run->ports[0].end;
    struct rcmi_slot slot;
    if (end->serving != run->ports[0].turn || rcmi_channel_peek(end->channel, &slot) != RCM_OK)
        return; /* the lanes look too, and wait, or fail */
    if (run_is_untouched(run))
        run_measure(run);
    run->fetch = RCMI_RUN_BY_SLOTS;
    if (slot.meta == (run->bind.meta | RCMI_META_ELSEWHERE) && slot.len == sizeof run->from) {
        memcpy(&run->from, slot.bytes, sizeof run->from);
        run->fetch = RCMI_RUN_FETCHES;
        run->lanes[0].waits_for = end;
    }
}

/* It comes by slots after all, as everything does from now on. */
static rcm_status run_refuse(struct rcmi_run *run) {
    struct rcmi_end *end = run->ports[0].end;
    end->wish |= WISH_NONE;
    (void)rcmi_channel_wish(end->channel, end->wish);
    rcmi_port_withdraw(&run->ports[0]); /* what was invited counted from this message */
    rcmi_channel_release(end->channel);
    run->began_ns = 0;
    run->fetch = RCMI_RUN_BY_SLOTS;
    return RCM_OK;
}

static rcm_status run_fetch_piece(struct rcmi_run *run, bool *moved) {
    struct rcmi_channel *channel = run->ports[0].end->channel;
    if (!run_has_turn(run))
        return RCM_AGAIN;
    const rcm_status status =
        rcmi_channel_fetch(channel, run->base[RCMI_OUT], run->from, run_bytes(run),
                           run->exec->config.shape->crowd <= 1, moved);
    if (status == RCM_ERR_UNSUPPORTED)
        return run_refuse(run);
    if (status != RCM_OK)
        return status;
    if (run->began_ns) /* and says so before the root goes on */
        rcmi_run_fetch_learn(run, RCMI_FETCH_ALWAYS);
    run_withdraw(run); /* before the root goes on, and writes the next vector's slices */
    rcmi_channel_release(channel);
    run_fetch_over(run, moved);
    return RCM_OK;
}

rcm_status rcmi_run_fetch(struct rcmi_run *run, bool *moved) {
    const bool root = run->bind.plan->rank == run->bind.plan->root;
    if (run->fetch == RCMI_RUN_OPENS && root)
        return run_offer(run, moved);
    if (run->fetch == RCMI_RUN_OFFERED)
        return run_await_reader(run, moved);
    if (run->fetch == RCMI_RUN_OPENS) {
        run_wish_next(run);
        run_look(run);
    }
    return run->fetch == RCMI_RUN_FETCHES ? run_fetch_piece(run, moved) : RCM_OK;
}
