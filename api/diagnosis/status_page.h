/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The status page: what this rank is doing, in memory that the ranks of its host map and that
 * ringcomm-info reads through /proc. It is readable whatever the rank itself does. Only the driver
 * writes it, field by field. Others read it at any time, so a reader may see fields of two
 * operations mixed, and trusts none of them.
 *
 * Little is written when an operation begins or ends. The rest (`shown`) is written when the
 * driver, after a wait, checks its deadlines.
 */
#ifndef RCMI_STATUS_PAGE_H
#define RCMI_STATUS_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "activity.h"
#include "exec.h"
#include "locality.h"
#include "members.h"
#include "protocol.h"

#define RCMI_PAGE_MAGIC                                                                            \
    0x5243504147453039u /* "RCPAGE09": the number is the version of the layout */

/* What a rank is doing on one communicator. */
struct rcmi_page_comm {
    _Atomic uint64_t epoch; /* 0: this entry is free */
    _Atomic int32_t rank, size;
    _Atomic uint64_t name[RCM_NAME_MAX / 8];

    _Atomic uint64_t called;   /* number of the collective called last */
    _Atomic uint64_t sequence; /* of the oldest unfinished one, 0: none */
    _Atomic uint64_t count;
    _Atomic int32_t called_as, collective, dtype, op, root;
    _Atomic int32_t failed;    /* enum rcm_status of the communicator */
    _Atomic uint32_t parting;  /* 1: in rcm_destroy */
    _Atomic uint32_t transfer; /* enum rcmi_transfer_kind of the shown transfer, 0: none */

    /* Written when shown: */
    _Atomic uint64_t shown; /* the sequence to which done, ..., nsteps belong */
    _Atomic uint64_t done;
    _Atomic int64_t moved_ns; /* CLOCK_MONOTONIC, of its last progress */
    _Atomic uint64_t algorithm[3], op_name[3];
    _Atomic int32_t waits_for; /* rank, -1 unknown */
    _Atomic uint32_t step, nsteps;
    _Atomic int32_t peer; /* of the transfer */
    _Atomic uint64_t tag, bytes;
    _Atomic int64_t transfer_ns; /* of its last progress */
    _Atomic uint64_t reserved[1];
    /* Counted by the framework of the transports, while the driver uses channels. */
    struct rcmi_traffic traffic[RCMI_TRANSPORTS_MAX];
};
_Static_assert(sizeof(struct rcmi_page_comm) == 512,
               "cache lines: what two threads write is apart");

#define RCMI_PAGE_COMMS (RCMI_STATUS_PAGE_BYTES / 512 - 1)

/* All fields: relaxed stores by the driver, relaxed loads by readers. They order nothing. */
struct rcmi_status_page {
    _Atomic uint64_t magic;
    _Atomic uint32_t page_bytes;     /* sizeof of this */
    _Atomic int32_t pid, rank, size; /* of the world */
    _Atomic uint64_t job;

    /* The rank's settings; final when the page is made, except rows: the loop thread sets bit i
     * when there is a link by rcmi_transports[i]. */
    _Atomic uint64_t rows;
    _Atomic uint64_t sharing; /* enum rcmi_sharing */
    struct {
#define RCMI_PAGE_RANGE(name, help) _Atomic uint64_t name##_from, name##_to;
        RCMI_PROTOCOL_MAP(RCMI_PAGE_RANGE)
#undef RCMI_PAGE_RANGE
    } protocol;
    /* The clock of moved_ns and transfer_ns: its time namespace, and CLOCK_REALTIME's lead over
     * it. */
    _Atomic uint64_t time_ns;
    _Atomic int64_t ahead_ns;
    /* Which ranks of this host are near, as struct rcmi_page_near. */
    _Atomic uint32_t near_source;
    _Atomic int32_t near_cache_cpu, near_ranks;
    /* Where a thread of the rank last began a call or a wait: 1 + CPU; 0: unknown. */
    _Atomic int32_t cpu;

    /* From byte 512 on. If no entry is free, a communicator is not shown. */
    _Alignas(512) struct rcmi_page_comm comms[RCMI_PAGE_COMMS];
};

/* Which ranks of its host are near a rank. */
struct rcmi_page_near {
    enum rcmi_locality_source source; /* what decides */
    int cache_cpu; /* the first CPU of the last-level cache that decides, or -1 */
    int ranks;     /* the number of near ranks */
};

/* ---- Writing a rank's page */
/* The rank's settings. */
struct rcmi_page_settings {
    int rank, size; /* of the world */
    uint64_t job;
    enum rcmi_sharing sharing;
    const struct rcmi_protocol *protocol;
    struct rcmi_page_near near;
};
/* Called once, first. */
void rcmi_page_init(struct rcmi_status_page *page, const struct rcmi_page_settings *settings);
/* This rank has a link by that transport. Loop thread. */
void rcmi_page_linked(struct rcmi_status_page *page, const char *transport);
/* A thread of this rank drives a communicator, on the CPU on which it runs now. */
void rcmi_page_drives_here(struct rcmi_status_page *page);
/* Takes an entry for a communicator: one of the page, or separate memory if the page is full. NULL:
 * no memory (thread's error). give: with the same page; NULL is a no-op. One thread at a time. */
struct rcmi_page_comm *rcmi_page_take(struct rcmi_status_page *page,
                                      const struct rcmi_members *members, const char *name);
void rcmi_page_give(struct rcmi_status_page *page, struct rcmi_page_comm *comm);

/* ---- Writing an entry; driver, unless stated otherwise */
/* A collective was called. It begins, or waits for its turn. */
void rcmi_page_called(struct rcmi_page_comm *comm, uint64_t sequence,
                      enum rcm_collective collective);
/* Sets the oldest unfinished collective; 0, NULL: none. */
void rcmi_page_oldest(struct rcmi_page_comm *comm, uint64_t sequence, const struct rcmi_bind *bind);
/* Shows the progress of the oldest collective; moved_ns: time of its last progress. */
void rcmi_page_show(struct rcmi_page_comm *comm, uint64_t sequence, const struct rcmi_bind *bind,
                    const struct rcmi_run_wait *wait, int64_t moved_ns);
/* The shown part of a send or receive. */
struct rcmi_page_transfer {
    int peer;
    uint64_t tag, bytes;
};
/* Shows the oldest unfinished send or receive; RCMI_TRANSFER_NONE, NULL: none. */
void rcmi_page_show_transfer(struct rcmi_page_comm *comm, enum rcmi_transfer_kind kind,
                             const struct rcmi_page_transfer *transfer, int64_t moved_ns);
/* rcm_destroy began; the communicator failed; it has a new name. Any thread; _name: one at a
 * time. */
void rcmi_page_part(struct rcmi_page_comm *comm);
void rcmi_page_fail(struct rcmi_page_comm *comm, rcm_status status);
void rcmi_page_name(struct rcmi_page_comm *comm, const char *name);

/* ---- Reading; now_ns: CLOCK_MONOTONIC */
/* The rank that owns a page, and its settings. */
struct rcmi_page_owner {
    int pid, rank, size;
    uint64_t job;
    uint64_t rows; /* any bits */
    enum rcmi_sharing sharing;
    struct rcmi_protocol protocol; /* ranges are any numbers */
    struct rcmi_page_near near;    /* any numbers */
};
/* Reads a page (RCMI_STATUS_PAGE_BYTES, aligned), mapped or copied. False: it has another version,
 * or invalid content. */
bool rcmi_page_read(const void *bytes, struct rcmi_page_owner *ret_owner);

/* Did that rank last drive a communicator on the CPU of the calling thread? A hint: either may have
 * moved since. */
bool rcmi_page_drove_here(const void *bytes);

/* A communicator of that rank. */
struct rcmi_page_label {
    uint64_t epoch;
    int rank, size;
    char name[RCM_NAME_MAX]; /* printable ASCII */
};
/* Reads the i-th entry, i < RCMI_PAGE_COMMS. False: it is free, or has invalid content.
 * *ret_activity is sanitized. */
bool rcmi_page_read_comm(const void *bytes, int i, int64_t now_ns,
                         struct rcmi_page_label *ret_label, struct rcmi_activity *ret_activity);
/* The counts of an entry, summed over all transports. */
struct rcmi_page_traffic {
    uint64_t sent_bytes, received_bytes;
};
void rcmi_page_read_traffic(const void *bytes, int i, struct rcmi_page_traffic *ret_traffic);
/* Reads the entry of that epoch, if that rank has one. */
bool rcmi_page_find(const void *bytes, uint64_t epoch, int rank, int64_t now_ns,
                    struct rcmi_activity *ret_activity);
/* Reads this rank's own entry. */
void rcmi_page_read_own(const struct rcmi_page_comm *comm, int64_t now_ns,
                        struct rcmi_activity *ret_activity);

#endif
