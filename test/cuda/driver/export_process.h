/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that exports device memory, and imports in this process. This process starts the
 * exporter, which allocates, exports and frees on request. For cases (case.h): a failure ends the
 * process.
 */
#ifndef TEST_CUDA_EXPORT_PROCESS_H
#define TEST_CUDA_EXPORT_PROCESS_H

#include <sys/types.h>
#include "device_share.h"

enum { SHARING_BUFFERS = 100, SHARING_SECONDS = 20 };

/* ---- Device of this process ------------------------------------------------------------------ */

extern struct rcmi_device *device;
extern const struct rcmi_mem_row *row;

void begin_device(const char *name);
/* Copies by a device operation, as steps of plans do. From any thread. */
rcm_status copy(void *to, const void *from, size_t bytes);
/* Number of open descriptors of this process. */
int files(void);

/* ---- Exporting process ----------------------------------------------------------------------- */

/* Requests: 'a' allocates a buffer with every byte `fill` (small ones as programs get them); 'm'
 * the same by cuMemCreate; 'n' the same without a handle type; 's' exports more bytes than the
 * allocation has; 'o' exports memory of its own; 'f' frees; 'd' ends only the export. */
struct reply {
    rcm_status status;
    char why[300];
    struct rcmi_device_handle handle;
    uint64_t at; /* offset in the allocation */
    struct rcmi_exporter exporter;
    int fd;    /* the received descriptor, or -1 */
    int files; /* open descriptors of the exporter */
};

extern pid_t exporter_pid;

/* device_name: the exporter's device. fails: FAKECUDA_FAIL also applies to the exporter. */
void begin_exporter(const char *device_name, bool fails);
void end_exporter(void);
struct reply request_export(char what, int number, size_t bytes, unsigned char fill);
struct reply request_export_ok(char what, int number, size_t bytes, unsigned char fill);

/* ---- Imports --------------------------------------------------------------------------------- */

extern struct rcmi_imports *imports;

void begin_imports(const struct reply *reply);
void end_imports(void);
/* Opens the import by a descriptor, which the call consumes. */
rcm_status open_descriptor(const struct reply *reply, int fd);
rcm_status get(const struct reply *reply, size_t at, size_t bytes, struct rcmi_import **ret_import,
               const void **ret_bytes);
/* Checks that all bytes of the buffer are `fill`. */
rcm_status read_all(const struct reply *reply, size_t bytes, unsigned char fill);
void await_closed(uint64_t buffer);

#endif
