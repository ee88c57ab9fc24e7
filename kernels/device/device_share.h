/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory shared between processes of one host: memory that this process lets others open
 * (exports), and memory of others that it has opened (imports).
 *
 *      exporting process                           importing process
 *        rcmi_export_make, _alloc
 *        export->handle  ----- any path ---->        rcmi_imports_get: RCM_AGAIN while a job
 *                                                      opens it, then its address here
 *                                                    operations (operation.h) read it there
 *                                                    rcmi_import_put
 *        rcmi_export_end <- closed there -------     rcmi_imports_close
 *
 * Memory of cuMemAlloc is opened with the handle alone. Memory of cuMemCreate is opened with a
 * descriptor, sent over a Unix socket: rcmi_imports_open comes before the first rcmi_imports_get.
 *
 * A handle refers to a whole allocation of the driver; offsets within it are sent separately. An
 * allocation has a number, unique in its process and never reused, unlike its address: memory freed
 * and allocated anew has another number. Memory of the same process is not opened, but used in
 * place; on another device only if the devices can access each other.
 *
 * A thread for the device's jobs makes all driver calls (device_jobs.c), except the queries of
 * rcmi_export_make, which are short.
 *
 *   device_export.c   exports
 *   device_import.c   opening and closing one allocation of another process
 *   device_map.c      mapping and unmapping memory of a descriptor
 *   device_imports.c  a cache of the imports of one process
 *
 * Not here: how handles are sent, and the notice that memory is to be freed (transport/cuda_ipc/).
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

/* A call of the driver that may block, made in the device's context by a thread for jobs. */
struct rcmi_device_job {
    struct rcmi_device_job *next;
    bool releases; /* it gives memory back, which may wait for all work of the context */
    void (*run)(struct rcmi_device *device, struct rcmi_device_job *job);
};
/* Any thread. The device owns the job until run returns; run may free it. The device stays open
 * until then. */
void rcmi_device_do(struct rcmi_device *device, struct rcmi_device_job *job);

/* Identifies an allocation for another process. Sent as raw bytes; the opening code validates
 * received ones. */
enum { RCMI_HANDLE_IPC = 1, RCMI_HANDLE_DESCRIPTOR = 2 };
struct rcmi_device_handle {
    uint64_t buffer; /* the allocation's number in its process, not 0 */
    uint64_t bytes;
    uint64_t base; /* its address in that process */
    uint32_t kind;
    uint32_t reserved;     /* 0 */
    unsigned char how[64]; /* for RCMI_HANDLE_IPC */
};

/* A unique number of this process; also differs for equal pids in two containers. */
uint64_t rcmi_device_process(void);

/* ---- Exports --------------------------------------------------------------------------------- */

struct rcmi_export {
    struct rcmi_device *device;
    struct rcmi_device_handle handle;
    int fd; /* for RCMI_HANDLE_DESCRIPTOR; else -1 */
    /* For exports with their own memory: */
    struct rcmi_device_job job;
    const void *first; /* initial bytes */
    size_t first_len;
    void (*changed)(void *arg);
    void *arg;
    struct rcmi_error why;
    _Atomic int state; /* RCM_AGAIN; RCM_OK, or an error: release store, acquire load */
};

/* Exports the allocation that contains all of memory. RCM_ERR_UNSUPPORTED with an error text: it
 * cannot be exported. Any thread. */
rcm_status rcmi_export_make(struct rcmi_device *device, const void *memory, size_t bytes,
                            struct rcmi_export *ret_export);
/* Closes its descriptor, if any. Processes that opened the allocation keep it. */
void rcmi_export_drop(struct rcmi_export *export);
/* Allocates memory for an export, a multiple of 2 MiB, which begins with a copy of `first` (which
 * must stay valid until then). Returns at once; `changed` is called when it is done or has
 * failed. */
void rcmi_export_alloc(struct rcmi_device *device, size_t bytes, const void *first,
                       size_t first_len, void (*changed)(void *arg), void *arg,
                       struct rcmi_export *export);
/* RCM_AGAIN, RCM_OK, or the error of the allocation. */
rcm_status rcmi_export_look(const struct rcmi_export *export);
/* Frees that memory, which no process may have open. Returns at once; the device owns *export until
 * `changed` is called with state RCM_ERR_CANCELED. */
void rcmi_export_end(struct rcmi_export *export);

/* ---- Imports --------------------------------------------------------------------------------- */

/* The imports of one process, on one device of this process. */
struct rcmi_imports;
struct rcmi_import;

enum { RCMI_IMPORTS_MAX = 64 }; /* maximum open at a time */

/* exporter: the process, and the UUID of its device. changed: called on a thread for jobs, on
 * either of the two, when a retry may succeed; does not block. */
struct rcmi_exporter {
    uint64_t process;
    char uuid[48]; /* as in struct rcmi_device_facts */
};
rcm_status rcmi_imports_create(struct rcmi_device *device, const struct rcmi_exporter *exporter,
                               void (*changed)(void *arg), void *arg,
                               struct rcmi_imports **ret_imports);
/* Finds len bytes at byte `at` of an allocation. RCM_OK: *ret_bytes is their address, valid for
 * operations of the device; put *ret_import back when it is unused. RCM_AGAIN: it is being opened.
 * An error: it could not be opened (the next call retries), or the range is invalid. Any thread;
 * never blocks, and takes no lock for an open allocation. */
rcm_status rcmi_imports_get(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                            uint64_t at, size_t len, struct rcmi_import **ret_import,
                            const void **ret_bytes);
/* Any thread. */
void rcmi_import_put(struct rcmi_import *import);
/* Begins to open the allocation by the descriptor, which it takes over in any case; -1 is enough
 * for memory of this process. RCM_AGAIN: `changed` is called once rcmi_imports_get can return the
 * result. From then on the import has a user until it is to be closed; otherwise it could be
 * evicted. RCM_ERR_RESOURCE: too many are open. Any thread. */
rcm_status rcmi_imports_open(struct rcmi_imports *imports, const struct rcmi_device_handle *handle,
                             int fd);
/* The current time, for rcmi_imports_close. Any thread. */
uint64_t rcmi_imports_time(struct rcmi_imports *imports);
/* Closes the allocation as opened before `time`, the time of its owner's demand. Call before it is
 * freed. RCM_OK: it is closed; RCM_AGAIN: it is being closed. If opened again later, it stays open:
 * the owner may share it again before a slow close is done. Any thread. */
rcm_status rcmi_imports_close(struct rcmi_imports *imports, uint64_t buffer, uint64_t time);
/* Call when the process has ended: operations that have not begun no longer read its memory, and
 * everything is closed once unused. Any thread. */
void rcmi_imports_revoke(struct rcmi_imports *imports);
/* Revokes, and returns whether nothing is open or in progress any more. Call until it returns
 * true. */
bool rcmi_imports_quiet(struct rcmi_imports *imports);
/* Call once it is quiet. NULL is a no-op. */
void rcmi_imports_free(struct rcmi_imports *imports);
/* Did the driver fail to close one? It may stay open until this process ends. */
bool rcmi_imports_unclosed(const struct rcmi_imports *imports);
/* The number of imports that are open or being opened. */
int rcmi_imports_count(const struct rcmi_imports *imports);

#endif
