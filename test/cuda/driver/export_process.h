/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes and what they share of a device: this one imports; another one, which it starts,
 * allocates, exports and frees as it is told. For cases (case.h): what fails ends the process.
 */
#ifndef TEST_CUDA_EXPORT_PROCESS_H
#define TEST_CUDA_EXPORT_PROCESS_H

#include <sys/types.h>
#include "device_share.h"

enum { SHARING_BUFFERS = 100, SHARING_SECONDS = 20 };

/* ---- This process's device ------------------------------------------------------------------- */

extern struct rcmi_device *device;
extern const struct rcmi_mem_row *row;

void begin_device(const char *name);
/* By the device, as steps of plans do it. In any thread. */
rcm_status copy(void *to, const void *from, size_t bytes);
/* Descriptors that the process has. */
int files(void);

/* ---- The exporting process ------------------------------------------------------------------- */

/* 'a': a buffer of some bytes, all `fill`, small ones as a program gets them; 'm': of cuMemCreate;
 * 'n': that, of no type of handle; 's': more bytes than the allocation has; 'o': one with memory of
 * its own; 'f': its end; 'd': the end of its export alone. */
struct reply {
    rcm_status status;
    char why[300];
    struct rcmi_device_handle handle;
    uint64_t at; /* in the allocation */
    struct rcmi_exporter exporter;
    int fd;    /* the descriptor that came; -1 */
    int files; /* that it has */
};

extern pid_t exporter_pid;

/* device_name: of its device. fails: FAKECUDA_FAIL is meant for it, too. */
void begin_exporter(const char *device_name, bool fails);
void end_exporter(void);
struct reply tell(char what, int number, size_t bytes, unsigned char fill);
struct reply tell_well(char what, int number, size_t bytes, unsigned char fill);

/* ---- Imports --------------------------------------------------------------------------------- */

extern struct rcmi_imports *imports;

void begin_imports(const struct reply *reply);
void end_imports(void);
/* Opens it by the descriptor, which goes with it. */
rcm_status open_descriptor(const struct reply *reply, int fd);
rcm_status get(const struct reply *reply, size_t at, size_t bytes, struct rcmi_import **ret_import,
               const void **ret_bytes);
/* All bytes of the buffer are `fill`. */
rcm_status read_all(const struct reply *reply, size_t bytes, unsigned char fill);
void await_closed(uint64_t buffer);

#endif
