/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The status page: what this rank is doing, in memory that the ranks of its host map, and that
 * ringcomm-info reads through /proc, readable whatever the rank itself does. Written by the driver
 * only, word by word; read by others at any time, so a reader may see words of two operations mixed
 * and trusts none of them.
 *
 * What is written when an operation begins or ends is little. The rest (`shown`) is written when
 * the driver, having waited for a while, looks at its deadlines.
 */
#ifndef RCMI_PAGE_H
#define RCMI_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "activity.h"
#include "exec.h"
#include "endpoint.h"
#include "members.h"
#include "protocol.h"

#define RCMI_PAGE_MAGIC                                                                            \
    0x5243504147453034u /* "RCPAGE04": the number is the version of the layout */

/* All fields: relaxed stores by the driver, relaxed loads by readers; nothing is ordered by them.
 */
struct rcmi_status_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t page_bytes; /* sizeof of this */
    _Atomic uint64_t epoch;
    _Atomic int32_t pid, rank, size, local_size;
    _Atomic uint64_t job;

    _Atomic uint64_t called;   /* number of the collective called last */
    _Atomic uint64_t sequence; /* of the oldest unfinished one, 0: none */
    _Atomic uint64_t count;
    _Atomic int32_t called_as, collective, dtype, op, root;
    _Atomic int32_t failed;    /* enum rcm_status of the communicator */
    _Atomic uint32_t parting;  /* 1: in rcm_destroy */
    _Atomic uint32_t transfer; /* enum rcmi_transfer_kind of the one shown, 0: none */

    /* Shown. */
    _Atomic uint64_t shown; /* the sequence that step, ..., algorithm belong to */
    _Atomic uint64_t done;
    _Atomic int64_t moved_ns; /* CLOCK_MONOTONIC, of its last progress */
    _Atomic uint64_t algorithm[3];
    _Atomic int32_t waits_for; /* rank, -1 unknown */
    _Atomic uint32_t step, nsteps;
    _Atomic int32_t peer; /* of the transfer */
    _Atomic uint64_t tag, bytes;
    _Atomic int64_t transfer_ns; /* of its last progress */

    /* What the rank runs with; final when the page is made, but rows: bit i is set once there is a
     * link by rcmi_transports[i], by the loop thread. */
    _Atomic uint64_t rows;
    _Atomic uint64_t sharing; /* enum rcmi_sharing */
    struct {
#define RCMI_PAGE_RANGE(name, help) _Atomic uint64_t name##_from, name##_to;
        RCMI_PROTOCOL_MAP(RCMI_PAGE_RANGE)
#undef RCMI_PAGE_RANGE
    } protocol;
};

/* ---- Writing; for the driver but where said otherwise */
/* What a rank runs with. */
struct rcmi_page_settings {
    uint64_t job;
    int local_size;
    enum rcmi_sharing sharing;
    const struct rcmi_protocol *protocol;
};
void rcmi_page_init(struct rcmi_status_page *page, const struct rcmi_members *members,
                    const struct rcmi_page_settings *settings);
/* A collective was called, and begins, or waits for its turn. */
void rcmi_page_called(struct rcmi_status_page *page, uint64_t sequence,
                      enum rcm_collective collective);
/* The oldest unfinished collective is now this one; 0, NULL: there is none. */
void rcmi_page_oldest(struct rcmi_status_page *page, uint64_t sequence,
                      const struct rcmi_bind *bind);
/* How far the oldest collective is; moved_ns: when it last made progress. */
void rcmi_page_show(struct rcmi_status_page *page, uint64_t sequence, const struct rcmi_plan *plan,
                    const struct rcmi_run_wait *wait, int64_t moved_ns);
/* The oldest unfinished send or receive; RCMI_TRANSFER_NONE, NULL: there is none. */
void rcmi_page_show_transfer(struct rcmi_status_page *page, enum rcmi_transfer_kind kind,
                             const struct rcmi_transfer *transfer, int64_t moved_ns);
/* This rank has a link by that transport. Loop thread. */
void rcmi_page_linked(struct rcmi_status_page *page, const char *transport);
/* rcm_destroy began; the communicator failed. Any thread. */
void rcmi_page_part(struct rcmi_status_page *page);
void rcmi_page_fail(struct rcmi_status_page *page, rcm_status status);

/* ---- Reading */
/* The rank that a page is of, and what that rank runs with. */
struct rcmi_page_owner {
    int pid, rank, size, local_size;
    uint64_t job;
    uint64_t epoch;
    uint64_t rows; /* any bits */
    enum rcmi_sharing sharing;
    struct rcmi_protocol protocol; /* ranges are any numbers */
};

/* Reads a page (RCMI_STATUS_PAGE_BYTES, aligned), mapped or copied. False if it is none of this
 * version or has nonsense in it; *ret_activity is sanitized. now_ns: CLOCK_MONOTONIC. */
bool rcmi_page_read(const void *bytes, int64_t now_ns, struct rcmi_page_owner *ret_owner,
                    struct rcmi_activity *ret_activity);

#endif
