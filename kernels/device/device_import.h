/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by device_import.c and device_imports.c: see device_share.h. */
#ifndef RCMI_DEVICE_IMPORT_H
#define RCMI_DEVICE_IMPORT_H

#include "device_share.h"

enum import_state {
    IMPORT_FREE,
    IMPORT_OPENING,
    IMPORT_OPEN,
    IMPORT_FAILED,
    IMPORT_CLOSING, /* once it has no users */
};

/* One allocation of another process, at an address of this one. Closing it may wait for the
 * context's work, so it leaves its entry first: no operation that needs an entry waits for that. */
struct import_mapping {
    struct rcmi_imports *of;
    struct rcmi_device_handle handle;
    char *base;           /* address in this process */
    uint64_t since;       /* time of the clock at which opening began */
    bool lies_here;       /* memory of this process: nothing to close */
    _Atomic bool revoked; /* relaxed, checked before an operation begins */
    struct rcmi_device_job job;
    struct import_mapping *next;         /* in the device's list, from open until closed */
    struct import_mapping *next_closing; /* in the list of those without an entry */
};

/* Entries are reused. */
struct rcmi_import {
    /* seq_cst: a user increments users, then checks state; the closer sets state, then checks
     * users. */
    _Atomic uint32_t users;
    _Atomic int state;       /* enum import_state */
    _Atomic uint64_t buffer; /* 0: none; relaxed, changes only while not open */
    _Atomic uint64_t used;   /* time of last use; relaxed, a hint */
    struct rcmi_imports *of;
    struct import_mapping *mapping; /* NULL: the entry is free */
    int fd;                         /* for opening; -1: none */
    struct rcmi_error why;
    struct rcmi_device_job job;
};

struct rcmi_imports {
    struct rcmi_device *device;
    struct rcmi_exporter exporter;
    void (*changed)(void *arg);
    void *arg;
    pthread_mutex_t lock;           /* for changing entries, not for using them */
    struct import_mapping *closing; /* under the lock */
    _Atomic uint64_t clock;         /* uses and openings so far; relaxed */
    _Atomic int under_way;          /* jobs in progress; release when one ends */
    _Atomic int calling;            /* calls of `changed` in progress; likewise */
    _Atomic bool wanted;            /* an entry is needed; seq_cst: set, then users are checked */
    _Atomic bool revoked;           /* relaxed */
    _Atomic bool unclosed; /* the driver failed to close one; relaxed, set before its state */
    struct rcmi_import entries[RCMI_IMPORTS_MAX];
};

/* Begins to open it by a job of the device, which then sets the state and calls `changed`. */
void import_open(struct rcmi_import *import);
/* Begins to close a mapping in the list of those without an entry, which the job takes it from and
 * frees. Calls `changed` at once, because an entry is free, and when it is closed. */
void mapping_close(struct import_mapping *mapping);

/* ---- device_map.c ---------------------------------------------------------------------------- */
/* Maps all `bytes` of the memory behind a descriptor at an address of the device. Requires the
 * current context. */
rcm_status device_map(struct rcmi_device *device, int fd, size_t bytes, char **ret_base);
/* False: the driver rejected it. */
bool device_unmap(const struct rcmi_device *device, char *base, size_t bytes);

#endif
