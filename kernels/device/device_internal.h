/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of a device: see device.h. */
#ifndef RCMI_DEVICE_INTERNAL_H
#define RCMI_DEVICE_INTERNAL_H

#include <pthread.h>
#include "device.h"
#include "device_kernels.h"
#include "device_share.h"
#include "error.h"
#include "operation.h"
#include "wait.h"

enum {
    DEVICE_STREAMS = 4,
    DEVICE_WORKS = 8,       /* concurrent operations */
    DEVICE_SLOT = 2 << 20,  /* bytes of pinned memory per operation */
    DEVICE_ROUND = 2 << 20, /* granularity of user memory: peers map whole blocks */
    DEVICE_OLDEST = 80,     /* oldest compute capability */
    DEVICE_SETUP_S = 60,    /* seconds until the driver counts as stuck */
    DEVICE_STOP_S = 5,      /* seconds until closing continues without the thread */
    DEVICE_OPERANDS = RCMI_REDUCE_MAX + 2,
};

/* Codes in addition to the driver's: memory that this device cannot use. */
enum {
    DEVICE_CODE_CONTEXT = -1,
    DEVICE_CODE_OTHER = -2,
    DEVICE_CODE_DROPPED = -3,
    DEVICE_CODE_REVOKED = -4, /* memory of an ended process */
};

enum device_memory_type {
    MEMORY_DEVICE,
    MEMORY_PINNED, /* of the host, accessible to the device */
    MEMORY_HOST,   /* copied through the slot */
};

struct rcmi_device;
struct device_work;
/* Enqueues work, or processes the results of the stage before. If anything was enqueued, the next
 * stage waits for the stream. */
typedef rcmi_cuda_code (*device_stage)(struct rcmi_device *device, struct device_work *work);
struct device_method {
    device_stage stages[2];
};

/* One operation in progress. */
struct device_work {
    struct rcmi_operation *operation; /* NULL: none */
    struct rcmi_cuda_stream *stream;
    struct rcmi_cuda_event *event;
    char *slot; /* also its address on the device */
    const struct device_method *method;
    int stage;
    bool enqueued; /* since the last event */
    size_t at, piece;
    /* By operand, sources before results: the memory type, and the slot area that it uses. */
    enum device_memory_type types[DEVICE_OPERANDS];
    int areas[DEVICE_OPERANDS];
    int nareas;
};

struct device_queue {
    struct rcmi_operation *first, **end;
};

/* See device_jobs.c. */
struct device_jobs {
    struct rcmi_device *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rcmi_device_job *first;
    bool running, ends;
};

struct rcmi_device {
    struct rcmi_device *next; /* in the list of open devices */
    int users;
    struct rcmi_device_facts facts;
    const struct rcmi_cuda *cuda;
    struct rcmi_cuda_context *context;
    struct rcmi_cuda_stream *streams[DEVICE_STREAMS];
    struct rcmi_cuda_stream *side; /* for callers' threads */
    struct device_kernels kernels;
    struct device_work works[DEVICE_WORKS];

    pthread_t thread;
    struct rcmi_doorbell doorbell;
    _Atomic(struct rcmi_operation *) incoming; /* newest first */
    _Atomic(struct rcmi_device_job *) jobs;    /* likewise */
    _Atomic bool ends;
    /* Result of setting up, under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t set_up_changed;
    bool set_up, ended;
    struct rcmi_error set_up_error;

    /* Owned by the device's thread. */
    struct device_queue follows, ready, later; /* later: waiting for another operation */
    struct device_jobs blocking, releases;
    pthread_mutex_t imports_lock;
    struct import_mapping *imports; /* open imports, under the lock */
};

/* ---- device_facts.c -------------------------------------------------------------------------- */
rcm_status device_facts_get(const struct rcmi_cuda *cuda, int ordinal,
                            struct rcmi_device_facts *ret_facts);

/* ---- device_memory.c ------------------------------------------------------------------------- */
/* Rounded up to DEVICE_ROUND, zeroed. _free ignores NULL. Any thread. */
rcm_status device_memory_alloc(struct rcmi_device *device, size_t bytes, void **ret_memory);
void device_memory_free(struct rcmi_device *device, void *memory);

/* ---- device_import.c ------------------------------------------------------------------------- */
/* Is it memory of an open import? An error if operations must not use it any more. */
rcmi_cuda_code device_import_look(struct rcmi_device *device, const void *memory,
                                  bool *ret_imported);

/* ---- device_thread.c ------------------------------------------------------------------------- */
/* Starts the thread and waits until it has set up the device. On an error there is no thread. */
rcm_status device_thread_start(struct rcmi_device *device);
/* False: the thread is stuck in the driver; the device must stay. */
bool device_thread_stop(struct rcmi_device *device);

/* ---- device_jobs.c --------------------------------------------------------------------------- */
/* Device's thread only, both. Runs a list of jobs on their threads; without one, at once. */
void device_jobs_do(struct rcmi_device *device, struct rcmi_device_job *job);
/* Waits for the jobs, and ends their threads. */
void device_jobs_end(struct rcmi_device *device);

/* ---- device_queue.c -------------------------------------------------------------------------- */
/* Any thread. The device's thread takes all at once. */
void device_submit(struct rcmi_device *device, struct rcmi_operation *operation);

/* ---- device_work.c --------------------------------------------------------------------------- */
rcmi_cuda_code device_work_make(struct rcmi_device *device, struct device_work *work,
                                struct rcmi_cuda_stream *stream);
void device_work_free(struct rcmi_device *device, struct device_work *work);
void device_work_begin(struct rcmi_device *device, struct device_work *work,
                       struct rcmi_operation *operation);
/* Did anything change? */
bool device_work_look(struct rcmi_device *device, struct device_work *work);
void device_explain(int code, char *text, size_t cap);
rcm_status device_status(int code);

/* ---- device_method.c ------------------------------------------------------------------------- */
/* Sets the method, and the slot areas that it needs. */
void device_method_choose(struct device_work *work);
/* The source or result with that number, from byte work->at on. */
const char *device_operand(const struct device_work *work, uint32_t i);

/* ---- device_identity.c ----------------------------------------------------------------------- */
/* See struct rcmi_mem_row. */
rcm_status device_identify(const void *memory, size_t bytes, uint64_t *ret_identity);

/* ---- device_follow.c ------------------------------------------------------------------------- */
rcm_status device_follow(struct rcmi_operation *operation, void *stream);
/* Has the followed work completed or failed? Then the operation has ended. */
bool device_follow_look(struct rcmi_device *device, struct rcmi_operation *operation);
void device_follow_drop(struct rcmi_device *device, struct rcmi_operation *operation);

#endif
