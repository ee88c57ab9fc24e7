/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding: a checked request becomes a bound call. Its algorithm and plan are found, and its
 * buffers are looked up. The call gets its record (meta), a hash by which ranks detect that their
 * calls differ. The inline functions are part of every call, where each instruction counts.
 *
 * Not here: the use of the call (collective.c, persistent.c, prepare.c).
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

/* Makes a call's record: a hash in the upper half, the operation's number in the lower half. The
 * hash covers all calls so far. So if a call differed and yet was complete on a rank (each its own
 * root of a broadcast), the next one differs too. */
static inline uint64_t rcmi_record_call(uint64_t *history, uint64_t epoch, uint64_t sequence,
                                        uint64_t hash) {
    *history = rcmi_hash_mix(*history ^ epoch, hash);
    return rcmi_work_meta(*history, sequence);
}

/* Chooses by the call's name, else by the algorithm named for the size, else by predicted time. */
rcm_status rcmi_request_algorithm(rcm_comm *comm, struct rcmi_selection *selection,
                                  const struct rcmi_request *r,
                                  const struct rcmi_algorithm **ret_algorithm);
/* Finds algorithm and plan, and all else that a call with other buffers would share. */
rcm_status rcmi_request_resolve(rcm_comm *comm, const struct rcmi_request *r,
                                struct rcmi_called *ret_called);

/* Looks up the memory kinds of the buffers and their registrations, if there is memory that needs
 * it. */
rcm_status rcmi_bind_know(rcm_comm *comm, struct rcmi_bind *bind);
/* The record of a call with any memory kind. */
uint64_t rcmi_bind_record(rcm_comm *comm, uint64_t hash, const struct rcmi_bind *bind);
/* Binds unequal blocks; in and out get their memory kind. */
void rcmi_bind_blocks(const struct rcmi_block *blocks, struct rcmi_bind *bind);
/* Binds, and records the call, if there is memory whose buffers must be looked up. */
rcm_status rcmi_request_record_special(rcm_comm *comm, const struct rcmi_request *r,
                                       const struct rcmi_called *called,
                                       struct rcmi_bind *ret_bind);
/* Ends a call that could not be issued. */
rcm_status rcmi_request_decline(rcm_comm *comm, const struct rcmi_request *r, rcm_status status);

static inline __attribute__((always_inline)) void
rcmi_request_bind(const struct rcmi_request *r, const struct rcmi_called *called, uint64_t meta,
                  struct rcmi_bind *ret_bind) {
    /* One by one: compilers would clear the struct first, by a slow instruction. */
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

/* Makes a work that is started later. */
rcm_status rcmi_request_persist(rcm_comm *comm, const struct rcmi_request *r,
                                const struct rcmi_called *called, rcm_work **ret_work);

#endif
