/* SPDX-License-Identifier: BSD-3-Clause */
/* See fake.h. */
#include "fake.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "clock.h"
#include "device_share.h"
#include "error.h"
#include "fake_internal.h"
#include "operation.h"
#include "thread.h"

/* Two address ranges: `range` is inaccessible, `content` has the bytes, at a fixed distance. */
#define RANGE ((size_t)1 << 36)
#define PAGE  ((size_t)4096)

static int device; /* its address is the device */
static char *range, *content;
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock: */
static size_t used;
static struct block {
    struct block *next;
    char *begin;
    size_t bytes;
} * blocks;
static struct rcmi_operation *queue; /* begun and not ended, in no order */
static struct rcmi_operation *current;
static struct rcmi_device_job *jobs;
static int refused; /* number of allocations that fail from now on */
static pthread_cond_t changed;
static pthread_t thread;
static int thread_of; /* the process that started it */
static uint64_t random_state;
static enum fake_fate fate;
static int fate_in = -1, fate_n; /* after that many operations; -1: never */
static long begun;

static void give_up(const char *why, const struct rcmi_operation *o) {
    fprintf(stderr, "fake device: %s (a %s of %zu bytes, %u results from %p on)\n", why,
            o && o->nsrcs > 1 ? "reduction" : "copy", o ? o->bytes : 0, o ? o->nresults : 0,
            o ? o->results[0] : NULL);
    abort();
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static rcm_status row_has(const void *address, bool *ret_has, int *ret_device) {
    *ret_device = 0;
    *ret_has = fake_has(address);
    return RCM_OK;
}

bool fake_has(const void *address) {
    return (const char *)address >= range && (const char *)address < range + RANGE;
}

void *fake_view(const void *address) {
    return fake_has(address) ? content + ((const char *)address - range) : (void *)address;
}

void *fake_alloc(size_t bytes) {
    struct block *block = malloc(sizeof(*block));
    const size_t whole = (bytes + 2 * PAGE - 1) / PAGE * PAGE; /* a page or so between blocks */
    if (!block)
        abort();
    pthread_mutex_lock(&fake_lock);
    if (used + whole > RANGE)
        give_up("out of device memory", NULL);
    *block = (struct block){.next = blocks, .begin = range + used, .bytes = bytes};
    blocks = block;
    used += whole;
    pthread_mutex_unlock(&fake_lock);
    return block->begin;
}

static bool touches(const void *at, size_t len, const void *memory, size_t bytes) {
    return (uintptr_t)at < (uintptr_t)memory + bytes && (uintptr_t)memory < (uintptr_t)at + len;
}

static bool operation_writes(const struct rcmi_operation *o, const void *memory, size_t bytes) {
    for (uint32_t i = 0; i < o->nresults; i++)
        if (touches(o->results[i], o->bytes, memory, bytes))
            return true;
    return false;
}

static bool operation_touches(const struct rcmi_operation *o, const void *memory, size_t bytes) {
    for (uint32_t i = 0; i < o->nsrcs; i++)
        if (touches(o->srcs[i], o->bytes, memory, bytes))
            return true;
    return operation_writes(o, memory, bytes);
}

static int running(const void *memory, size_t bytes) {
    int n = current && (!memory || operation_touches(current, memory, bytes));
    for (const struct rcmi_operation *o = queue; o; o = o->next)
        n += !memory || operation_touches(o, memory, bytes);
    return n;
}

int fake_running(const void *memory, size_t bytes) {
    pthread_mutex_lock(&fake_lock);
    const int n = running(memory, bytes);
    pthread_mutex_unlock(&fake_lock);
    return n;
}

void fake_free(void *memory) {
    pthread_mutex_lock(&fake_lock);
    struct block **at = &blocks;
    while (*at && (*at)->begin != memory)
        at = &(*at)->next;
    struct block *block = *at;
    if (!block)
        give_up("freed memory is not device memory", NULL);
    if (running(block->begin, block->bytes) > 0)
        give_up("freed memory is in use by an operation", NULL);
    *at = block->next;
    pthread_mutex_unlock(&fake_lock);
    const size_t pages = (block->bytes + PAGE - 1) / PAGE * PAGE;
    if (pages > 0)
        (void)madvise(fake_view(block->begin), pages, MADV_DONTNEED);
    free(block);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static uint32_t random_below(uint32_t n) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % n;
}

/* Nanoseconds until an operation runs: mostly short, sometimes much longer. */
static int64_t delay(void) {
    const uint32_t kind = random_below(100);
    if (fate_in == 0 && fate == FAKE_LASTS)
        return (int64_t)fate_n * 1000000;
    return kind < 70 ? 0 : kind < 98 ? random_below(30000) : random_below(600000);
}

static bool is_source(const struct rcmi_operation *o, const void *result) {
    for (uint32_t i = 0; i < o->nsrcs; i++)
        if (o->srcs[i] == result)
            return true;
    return false;
}

/* The operation's memory must be allocated, and independent of all running operations. */
static void operation_check(const struct rcmi_operation *o, const void *at, bool writes) {
    const struct block *block = blocks;
    while (block && !(touches(at, o->bytes, block->begin, block->bytes) &&
                      (const char *)at >= block->begin &&
                      (const char *)at + o->bytes <= block->begin + block->bytes))
        block = block->next;
    if (fake_has(at) && !block)
        give_up("an operation uses memory that is not allocated", o);
    if (current && (writes ? operation_touches : operation_writes)(current, at, o->bytes))
        give_up("an operation uses memory of a running operation", o);
    for (const struct rcmi_operation *other = queue; other; other = other->next)
        if ((writes ? operation_touches : operation_writes)(other, at, o->bytes))
            give_up("an operation uses memory of a waiting operation", o);
}

static void operation_check_all(const struct rcmi_operation *o) {
    if (o->after && o->nresults == 0 && o->nsrcs == 0 && o->bytes == 0)
        return; /* it only waits */
    if (o->nresults < 1 || o->nresults > 2 || o->nsrcs < 1 || o->bytes == 0)
        give_up("an operation without results, sources or bytes", o);
    for (uint32_t i = 0; i < o->nsrcs; i++)
        operation_check(o, o->srcs[i], false);
    for (uint32_t i = 0; i < o->nresults; i++)
        operation_check(o, o->results[i], true);
}

static void operation_run(const struct rcmi_operation *o) {
    const void *srcs[RCMI_REDUCE_MAX];
    void *results[2] = {NULL, NULL};
    const size_t count = o->bytes / rcm_dtype_size(o->dtype);
    for (uint32_t i = 0; i < o->nsrcs; i++)
        srcs[i] = fake_view(o->srcs[i]);
    for (uint32_t i = 0; i < o->nresults; i++)
        results[i] = fake_view(o->results[i]);
    const struct rcmi_reduction *reduction = rcmi_reduction_find(o->dtype, o->op);
    for (uint32_t i = 0; i < o->nresults && !o->reduces; i++)
        rcmi_copy(results[i], srcs[0], o->bytes);
    if (o->reduces && o->nresults == 2)
        reduction->reduce_twice(results[0], results[1], srcs, (int)o->nsrcs, count,
                                RCMI_BOTH_TEMPORAL, &o->context);
    else if (o->reduces)
        reduction->reduce(results[0], srcs, (int)o->nsrcs, count, &o->context);
}

/* The due time of an operation, stored in its `own` as a number. */
static int64_t due(const struct rcmi_operation *o) {
    return (int64_t)(uintptr_t)o->own;
}

/* From now on it may write, so its results are filled with 0xee. */
static void operation_spoil(const struct rcmi_operation *o) {
    for (uint32_t i = 0; i < o->nresults; i++)
        if (!is_source(o, o->results[i]))
            memset(fake_view(o->results[i]), 0xee, o->bytes);
}

/* True if the operation that it follows has ended, successfully or not. */
static bool is_free(struct rcmi_operation *o) {
    int code = 0;
    const rcm_status status = o->after ? rcmi_operation_may_run(o, &code) : RCM_OK;
    if (status == RCM_PENDING)
        return false;
    if (o->after && status == RCM_OK)
        operation_spoil(o);
    if (status != RCM_OK) {
        o->code = code ? code : 78;
        o->own = NULL; /* due */
    }
    o->after = NULL;
    return true;
}

/* The next operation to run, NULL if none can run yet. */
static struct rcmi_operation **queue_next(void) {
    struct rcmi_operation **found = NULL;
    for (struct rcmi_operation **at = &queue; *at; at = &(*at)->next)
        if (is_free(*at) && (!found || due(*at) < due(*found)))
            found = at;
    return found;
}

static void jobs_run(void) {
    while (jobs) {
        struct rcmi_device_job *job = jobs;
        jobs = job->next;
        pthread_mutex_unlock(&fake_lock);
        job->run((struct rcmi_device *)(void *)&device, job);
        pthread_mutex_lock(&fake_lock);
    }
}

/* Waits for a due operation and removes it from the queue. */
static struct rcmi_operation *queue_take(void) {
    for (;;) {
        jobs_run();
        struct rcmi_operation **at = queue_next(), *o = at ? *at : NULL;
        const int64_t now = rcmi_now_ns();
        if (o && due(o) <= now) {
            *at = o->next;
            return o;
        }
        const int64_t look = now + (queue ? INT64_C(5000000) : INT64_C(1000000000));
        const int64_t until = o && due(o) < look ? due(o) : look;
        (void)rcmi_condition_wait(&changed, &fake_lock, until);
    }
}

static void *serve(void *arg) {
    (void)arg;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        current = queue_take();
        struct rcmi_operation *o = current;
        const bool fails = o->code != 0;
        pthread_mutex_unlock(&fake_lock);
        if (!fails && o->nresults > 0)
            operation_run(o);
        pthread_mutex_lock(&fake_lock);
        current = NULL;
        pthread_mutex_unlock(&fake_lock);
        rcmi_operation_end(o, fails ? RCM_ERR_SYSTEM : RCM_OK, o->code);
        pthread_mutex_lock(&fake_lock);
    }
    return NULL;
}

/* A forked process has no thread yet. */
void fake_thread_start(void) {
    if (thread_of == getpid())
        return;
    rcmi_condition_init(&changed);
    random_state += (uint64_t)getpid();
    if (pthread_create(&thread, NULL, serve, NULL) != 0)
        abort();
    pthread_detach(thread);
    thread_of = getpid();
}

void fake_enqueue(struct rcmi_operation *o) {
    o->next = queue;
    queue = o;
    pthread_cond_signal(&changed);
}

static rcm_status fake_begin(struct rcmi_operation *o) {
    rcm_status status = RCM_OK;
    pthread_mutex_lock(&fake_lock);
    fake_thread_start();
    operation_check_all(o);
    begun++;
    o->own = (void *)(uintptr_t)(rcmi_now_ns() + delay());
    o->code = fate_in == 0 && fate == FAKE_FAILS ? 77 : 0;
    if (fate_in == 0 && fate == FAKE_NEVER_ENDS)
        o->own = (void *)(uintptr_t)INT64_MAX;
    if (fate_in == 0 && fate == FAKE_NEVER_BEGINS)
        status = rcmi_fail(RCM_ERR_RESOURCE, 0, "the fake device has no room");
    const bool again =
        fate_in == 0 && (fate == FAKE_LASTS || (fate == FAKE_NEVER_ENDS && --fate_n > 0));
    if (fate_in >= 0 && !again)
        fate_in--;
    if (status == RCM_OK && !o->after)
        operation_spoil(o);
    if (status == RCM_OK)
        fake_enqueue(o);
    pthread_mutex_unlock(&fake_lock);
    return status;
}

/* ---- The device ------------------------------------------------------------------------------ */

static rcm_status fake_open(const char *name, int local_rank, struct rcmi_device **ret_device) {
    (void)local_rank;
    if (strcmp(name, "auto") != 0 && strcmp(name, "0") != 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "there is no device %s", name);
    *ret_device = (struct rcmi_device *)(void *)&device;
    return RCM_OK;
}

static rcm_status fake_locate(const char *name, char ret_address[RCMI_PCI_ADDRESS]) {
    (void)name;
    ret_address[0] = '\0'; /* it is on no bus */
    return RCM_OK;
}

static void fake_close(struct rcmi_device *opened) {
    if ((void *)opened != (void *)&device)
        give_up("a device that was not opened is closed", NULL);
}

static void fake_hold(struct rcmi_device *opened) {
    (void)opened;
}

static int fake_number(const struct rcmi_device *opened) {
    (void)opened;
    return 0;
}

static const char *fake_label(const struct rcmi_device *opened) {
    (void)opened;
    return "the fake device";
}

static rcm_status row_alloc(struct rcmi_device *opened, size_t bytes, void **ret_memory) {
    (void)opened;
    pthread_mutex_lock(&fake_lock);
    const bool refuses = refused > 0 && refused-- > 0;
    pthread_mutex_unlock(&fake_lock);
    if (refuses)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "the fake device has no %zu bytes", bytes);
    *ret_memory = fake_alloc(bytes);
    return RCM_OK;
}

static void fake_do_job(struct rcmi_device *opened, struct rcmi_device_job *job) {
    (void)opened;
    pthread_mutex_lock(&fake_lock);
    fake_thread_start();
    job->next = jobs;
    jobs = job;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&fake_lock);
}

void fake_refuse(int n) {
    pthread_mutex_lock(&fake_lock);
    refused = n;
    pthread_mutex_unlock(&fake_lock);
}

int fake_blocks(void) {
    int n = 0;
    pthread_mutex_lock(&fake_lock);
    for (const struct block *block = blocks; block; block = block->next)
        n++;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

static void row_free(struct rcmi_device *opened, void *memory) {
    (void)opened;
    fake_free(memory);
}

static void fake_explain(int code, char *text, size_t cap) {
    snprintf(text, cap, "fake device error %d", code);
}

void fake_set(enum fake_fate which, int skip, int n) {
    pthread_mutex_lock(&fake_lock);
    fate = which;
    fate_in = skip;
    fate_n = n;
    pthread_mutex_unlock(&fake_lock);
}

long fake_count(void) {
    pthread_mutex_lock(&fake_lock);
    const long n = begun;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

/* The identity of one block. Its addresses are never reused. */
static rcm_status row_identify(const void *memory, size_t bytes, uint64_t *ret_identity) {
    pthread_mutex_lock(&fake_lock);
    const struct block *block = blocks;
    while (block && !touches(memory, bytes, block->begin, block->bytes))
        block = block->next;
    *ret_identity = block ? (uintptr_t)block->begin : 0;
    pthread_mutex_unlock(&fake_lock);
    return RCM_OK;
}

static const struct rcmi_mem_row fake_row = {.name = "device memory",
                                             .has = row_has,
                                             .identify = row_identify,
                                             .open = fake_open,
                                             .close = fake_close,
                                             .locate = fake_locate,
                                             .hold = fake_hold,
                                             .number = fake_number,
                                             .label = fake_label,
                                             .alloc = row_alloc,
                                             .free = row_free,
                                             .do_job = fake_do_job,
                                             .begin = fake_begin,
                                             .follow = fake_follow,
                                             .explain = fake_explain};

static char *range_map(int protection) {
    void *memory =
        mmap(NULL, RANGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void fake_add(unsigned seed) {
    random_state = seed;
    range = range_map(PROT_NONE);
    content = range_map(PROT_READ | PROT_WRITE);
    rcmi_mem_kind_add(RCMI_MEM_DEVICE, &fake_row);
}
