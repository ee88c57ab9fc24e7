/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of devices that processes of one host share: what this process lets others open (exports),
 * and what of theirs it has opened (imports).
 *
 *      exporting process                           importing process
 *        rcmi_export_make, _alloc
 *        export->handle  ----- any way ----->        rcmi_imports_get: RCM_AGAIN while the device's
 *                                                      thread opens it, then its address here
 *                                                    operations (operation.h) read it there
 *                                                    rcmi_import_put
 *        rcmi_export_end <- it is closed there -     rcmi_imports_close
 *
 * Memory of cuMemAlloc is opened by what its handle contains. That of cuMemCreate is opened by a
 * descriptor, which a Unix socket carries: rcmi_imports_open comes before the first
 * rcmi_imports_get.
 *
 * A handle leads to a whole allocation of the driver's; where in it something lies is told beside
 * it. An allocation has a number in its process that is never used twice, unlike its address: what
 * was freed and allocated anew is another one. Memory of the same process is not opened, but used
 * where it is; of another device, once the devices reach each other.
 *
 * What the driver is called for is done by the device's thread, but rcmi_export_make's questions,
 * which do not last.
 *
 *   device_export.c   exports
 *   device_import.c   one allocation of another process, opened and closed
 *   device_map.c      that of a descriptor: mapped, and unmapped
 *   device_imports.c  those of one process: a cache of them
 *
 * Not here: how handles travel, and the notice that memory is to be freed
 * (transport/cuda_ipc/).
 */
#ifndef RCMI_DEVICE_SHARE_H
#define RCMI_DEVICE_SHARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device.h"
#include "error.h"

/* A call of the driver that may last, made by the device's thread in its context. */
struct rcmi_device_job {
    struct rcmi_device_job *next;
    void (*run)(struct rcmi_device *device, struct rcmi_device_job *job);
};
/* Any thread. The job is the device's until run returns; it may be freed there. The device stays
 * open until then. */
void rcmi_device_do(struct rcmi_device *device, struct rcmi_device_job *job);

/* By what another process finds an allocation. Travels as it is; what comes from elsewhere is
 * checked where it is opened. */
enum { RCMI_HANDLE_IPC = 1, RCMI_HANDLE_DESCRIPTOR = 2 };
struct rcmi_device_handle {
    uint64_t buffer; /* the allocation's number in its process, not 0 */
    uint64_t bytes;
    uint64_t base; /* its address there */
    uint32_t kind;
    uint32_t reserved;     /* 0 */
    unsigned char how[64]; /* of RCMI_HANDLE_IPC */
};

/* A number of this process that no other one has, equal pids in two containers included. */
uint64_t rcmi_device_process(void);

/* ---- Exports --------------------------------------------------------------------------------- */

struct rcmi_export {
    struct rcmi_device *device;
    struct rcmi_device_handle handle;
    int fd; /* of RCMI_HANDLE_DESCRIPTOR; -1 */
    /* Of one with memory of its own. */
    struct rcmi_device_job job;
    const void *first; /* bytes that it begins with */
    size_t first_len;
    void (*changed)(void *arg);
    void *arg;
    struct rcmi_error why;
    _Atomic int state; /* RCM_AGAIN; RCM_OK, or an error: release store, acquire load */
};

/* Of the allocation that all of memory lies in. RCM_ERR_UNSUPPORTED, with a sentence: that cannot
 * be exported. Any thread. */
rcm_status rcmi_export_make(struct rcmi_device *device, const void *memory, size_t bytes,
                            struct rcmi_export *ret_export);
/* Closes its descriptor, if it has one. What has opened the allocation keeps it. */
void rcmi_export_drop(struct rcmi_export *export);
/* Allocates memory for one, a multiple of 2 MiB, which begins with a copy of `first` (that stays
 * where it is until then). Returns at once; `changed` is called when it is there, or cannot be. */
void rcmi_export_alloc(struct rcmi_device *device, size_t bytes, const void *first,
                       size_t first_len, void (*changed)(void *arg), void *arg,
                       struct rcmi_export *export);
/* RCM_AGAIN, RCM_OK, or why it could not be allocated. */
rcm_status rcmi_export_look(const struct rcmi_export *export);
/* Frees that memory, which no process has open. Returns at once; *export is the device's until
 * `changed` is called: the state is RCM_ERR_CANCELED then. */
void rcmi_export_end(struct rcmi_export *export);

/* ---- Imports --------------------------------------------------------------------------------- */

/* Of one process, on one device of this process. */
struct rcmi_imports;
struct rcmi_import;

enum { RCMI_IMPORTS_MAX = 64 }; /* that are open at a time */

/* exporter: the process, and the UUID of its device. changed: something can be asked
 * again; called on the device's thread, does not block. */
struct rcmi_exporter {
    uint64_t process;
    char uuid[48]; /* as in struct rcmi_device_facts */
};
rcm_status rcmi_imports_create(struct rcmi_device *device, const struct rcmi_exporter *exporter,
                               void (*changed)(void *arg), void *arg,
                               struct rcmi_imports **ret_imports);
/* len bytes, from byte `at` of an allocation on. RCM_OK: *ret_bytes is their address here, of use
 * to operations of the device, and *ret_import is to be put back when none uses it. RCM_AGAIN: it
 * is being opened. An error: it could not be, and is tried anew the next time, or nothing can be
 * there. Any thread; never blocks, and
 * takes no lock for what is open. */
rcm_status rcmi_imports_get(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                            uint64_t at, size_t len, struct rcmi_import **ret_import,
                            const void **ret_bytes);
/* Any thread. */
void rcmi_import_put(struct rcmi_import *import);
/* Begins to open the allocation by the descriptor, which is taken over, whatever is returned; -1 is
 * enough for memory of this process. RCM_AGAIN: `changed` is called when rcmi_imports_get says how
 * it went; from then on it has a user until it is to be closed, or it might make room for another
 * one. RCM_ERR_RESOURCE: as many are open as may be. Any thread. */
rcm_status rcmi_imports_open(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                             int fd);
/* The allocation is about to be freed. RCM_OK: it is not open here; RCM_AGAIN: it is being closed.
 * Any thread. */
rcm_status rcmi_imports_close(struct rcmi_imports *imports, uint64_t buffer);
/* The process has ended: no operation that did not begin yet reads its memory any more, and all is
 * closed once none does. Any thread. */
void rcmi_imports_revoke(struct rcmi_imports *imports);
/* Revokes it, and is nothing open any more, and nothing under way? To be asked until it is so. */
bool rcmi_imports_quiet(struct rcmi_imports *imports);
/* Once it is quiet. NULL is a no-op. */
void rcmi_imports_free(struct rcmi_imports *imports);
/* Has the driver refused to close one? It may be open until this process ends. */
bool rcmi_imports_unclosed(const struct rcmi_imports *imports);
/* How many are open or being opened. */
int rcmi_imports_count(const struct rcmi_imports *imports);

#endif
