/* SPDX-License-Identifier: BSD-3-Clause */
/* Between device_import.c and device_imports.c: see device_share.h. */
#ifndef RCMI_DEVICE_IMPORT_H
#define RCMI_DEVICE_IMPORT_H

#include "device_share.h"

enum import_state {
    IMPORT_FREE,
    IMPORT_OPENING,
    IMPORT_OPEN,
    IMPORT_FAILED,
    IMPORT_CLOSING, /* as soon as it has no users */
    IMPORT_CLOSED,  /* the device's thread does it */
};

/* One allocation of another process. Its entry is used for one after the other. */
struct rcmi_import {
    /* seq_cst: a user counts itself, then looks at the state; what closes it sets the state, then
     * looks at the users. */
    _Atomic uint32_t users;
    _Atomic int state;       /* enum import_state */
    _Atomic uint64_t buffer; /* 0: of none; relaxed, it changes while it is not open only */
    _Atomic uint64_t used;   /* when; relaxed, a hint */
    _Atomic bool revoked;    /* relaxed, looked at before an operation begins */
    struct rcmi_imports *of;
    struct rcmi_device_handle handle;
    int fd;         /* by which it is to be opened; -1 */
    char *base;     /* here */
    bool lies_here; /* memory of this process: nothing is to be closed */
    struct rcmi_error why;
    struct rcmi_device_job job;
    struct rcmi_import *next; /* of those that the device's thread knows; its own */
};

struct rcmi_imports {
    struct rcmi_device *device;
    struct rcmi_exporter exporter;
    void (*changed)(void *arg);
    void *arg;
    pthread_mutex_t lock;   /* of what changes entries, not of what uses them */
    _Atomic uint64_t clock; /* uses so far; relaxed */
    _Atomic int under_way;  /* jobs; release when one ends */
    _Atomic int calling;    /* `changed`; likewise */
    _Atomic bool wanted;    /* an entry; seq_cst: set, then users are looked at, as of `users` */
    _Atomic bool revoked;   /* relaxed */
    _Atomic bool unclosed;  /* the driver has refused to close one; relaxed, before its state */
    struct rcmi_import entries[RCMI_IMPORTS_MAX];
};

/* Begins to open or close it, by the device's thread: `changed` is called when that is done, which
 * the state says. */
void import_open(struct rcmi_import *import);
void import_close(struct rcmi_import *import);

/* ---- device_map.c ---------------------------------------------------------------------------- */
/* Memory of a descriptor, at an address of the device's own: `bytes` of it, which is all. In the
 * context. */
rcm_status device_map(struct rcmi_device *device, int fd, size_t bytes, char **ret_base);
/* false: the driver refuses. */
bool device_unmap(const struct rcmi_device *device, char *base, size_t bytes);

#endif
