/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request that was checked becomes a bound call: its algorithm and plan are found, its buffers
 * are looked at, and the call gets its record (meta), the hash by which ranks notice that they
 * called different things. What is in line here is a part of every call, where each instruction
 * counts.
 *
 * Not here: what is done with the call (collective.c, persistent.c, prepare.c).
 */
#ifndef RCMI_COLLECTIVE_BIND_H
#define RCMI_COLLECTIVE_BIND_H

#include "request.h"
#include "work.h"

static inline uint64_t rcmi_hash_mix(uint64_t hash, uint64_t value) {
    hash ^= value;
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* A call's record: what must be equal on all ranks above, the operation's number below. The hash
 * goes over all calls so far: where a call differed and yet was complete on a rank (each its own
 * root of a broadcast), the next one differs too. */
static inline uint64_t rcmi_record_call(uint64_t *history, uint64_t epoch, uint64_t sequence,
                                        uint64_t hash) {
    *history = rcmi_hash_mix(*history ^ epoch, hash);
    return rcmi_work_meta(*history, sequence);
}

/* By the call's name, else by what is named for the size, else by price. */
rcm_status rcmi_request_algorithm(rcm_comm *comm, struct rcmi_selection *selection,
                                  const struct rcmi_request *r,
                                  const struct rcmi_algorithm **ret_algorithm);
/* Algorithm and plan, and what else a call with other buffers has in common with this one. */
rcm_status rcmi_request_resolve(rcm_comm *comm, const struct rcmi_request *r,
                                struct rcmi_called *ret_called);

/* More is known of some memory than its address: of which kind the buffers are, and what the
 * transports know of them. */
rcm_status rcmi_bind_know(rcm_comm *comm, struct rcmi_bind *bind);
/* The record of a call whose buffers may be no host memory. */
uint64_t rcmi_bind_record(rcm_comm *comm, uint64_t hash, const struct rcmi_bind *bind);
/* Unequal blocks: in and out tell of which kind they are. */
void rcmi_bind_blocks(const struct rcmi_block *blocks, struct rcmi_bind *bind);
/* Binds, and records the call, where more is known of some memory than its address. */
rcm_status rcmi_request_record_special(rcm_comm *comm, const struct rcmi_request *r,
                                       const struct rcmi_called *called,
                                       struct rcmi_bind *ret_bind);
/* The call could not be issued. */
rcm_status rcmi_request_decline(rcm_comm *comm, const struct rcmi_request *r, rcm_status status);

static inline __attribute__((always_inline)) void
rcmi_request_bind(const struct rcmi_request *r, const struct rcmi_called *called, uint64_t meta,
                  struct rcmi_bind *ret_bind) {
    /* Each by itself: compilers would clear all of it first, by a slow instruction. */
    ret_bind->plan = called->plan;
    ret_bind->collective = r->collective;
    ret_bind->in = rcmi_mem_host(r->in, called->in_bytes);
    ret_bind->out = rcmi_mem_host(r->out, called->out_bytes);
    ret_bind->blocks = NULL;
    ret_bind->count = r->count;
    ret_bind->reported_count = r->blocks ? r->total : r->count;
    ret_bind->dtype = r->dtype;
    ret_bind->op = r->op;
    ret_bind->meta = meta;
    ret_bind->after = NULL;
    if (r->blocks)
        rcmi_bind_blocks(r->blocks, ret_bind);
}

/* ---- persistent.c ---------------------------------------------------------------------------- */

/* The call makes a work that is started later. */
rcm_status rcmi_request_persist(rcm_comm *comm, const struct rcmi_request *r,
                                const struct rcmi_called *called, rcm_work **ret_work);

#endif
