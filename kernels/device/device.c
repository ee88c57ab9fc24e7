/* SPDX-License-Identifier: BSD-3-Clause */
/* Open devices, and the function table of the memory kind: see device.h. */
#include "device.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "device_internal.h"
#include "error.h"
#include "log.h"
#include "thread.h"

/* Open devices, devices stuck in the driver, and devices being opened. Under the lock. While it is
 * held no driver call is made, and nothing waits, except one opening for another of the same
 * device: holding and closing a device are part of calls with deadlines. */
struct device_opening {
    struct device_opening *next;
    int ordinal;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static struct rcmi_device *devices, *stuck;
static struct device_opening *openings;

/* ---- Names ----------------------------------------------------------------------------------- */

static bool name_is_number(const char *name, int *ret_number) {
    char *end;
    const long number = strtol(name, &end, 10);
    *ret_number = number >= 0 && number < 1 << 16 ? (int)number : -1;
    return *name >= '0' && *name <= '9' && *end == '\0';
}

static rcm_status name_unknown(const char *name, int n) {
    return rcmi_fail(
        RCM_ERR_INVALID, 0,
        "device '%s' is not one of the %d here. Use auto, a number from 0 to %d, or a UUID from "
        "nvidia-smi -L",
        name, n, n - 1);
}

static rcm_status find_uuid(const char *name, int n, int *ret_ordinal) {
    struct rcmi_device_facts facts;
    for (int i = 0; i < n; i++) {
        const rcm_status status = rcmi_device_query(i, &facts);
        if (status != RCM_OK)
            return status;
        if (strcmp(facts.uuid, name) == 0) {
            *ret_ordinal = i;
            return RCM_OK;
        }
    }
    return name_unknown(name, n);
}

rcm_status rcmi_device_find(const char *name, int local_rank, int *ret_ordinal) {
    int n;
    if (name && strcasecmp(name, "none") == 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "devices are disabled: RINGCOMM_DEVICE is none");
    const rcm_status status = rcmi_device_count(&n);
    if (status != RCM_OK)
        return status;
    if (!name || !*name || strcasecmp(name, "auto") == 0) {
        *ret_ordinal = (local_rank > 0 ? local_rank : 0) % n;
        return RCM_OK;
    }
    if (!name_is_number(name, ret_ordinal))
        return find_uuid(name, n, ret_ordinal);
    return *ret_ordinal >= 0 && *ret_ordinal < n ? RCM_OK : name_unknown(name, n);
}

rcm_status rcmi_device_locate(const char *name, char ret_address[RCMI_PCI_ADDRESS]) {
    struct rcmi_device_facts facts;
    int ordinal = 0;
    rcm_status status = rcmi_device_find(name, 0, &ordinal);
    if (status == RCM_OK)
        status = rcmi_device_query(ordinal, &facts);
    if (status == RCM_OK)
        memcpy(ret_address, facts.bus, RCMI_PCI_ADDRESS);
    return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static rcm_status facts_check(const struct rcmi_device_facts *facts) {
    if (facts->capability >= DEVICE_OLDEST)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "%s, %s, has compute capability %d.%d, but the kernels need %d.%d (sm_%d) or "
                     "newer",
                     facts->label, facts->name, facts->capability / 10, facts->capability % 10,
                     DEVICE_OLDEST / 10, DEVICE_OLDEST % 10, DEVICE_OLDEST);
}

static void device_free(struct rcmi_device *d) {
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->imports_lock);
    pthread_cond_destroy(&d->set_up_changed);
    free(d);
}

/* The device is left to a thread that is stuck in the driver; the thread takes it down if it ever
 * returns. */
static void device_give_up(struct rcmi_device *d) {
    atomic_store_explicit(&d->ends, true, memory_order_release);
    pthread_detach(d->thread);
    pthread_mutex_lock(&lock);
    d->next = stuck;
    stuck = d;
    pthread_mutex_unlock(&lock);
    rcmi_log(RCMI_LOG_WARN, "the CUDA driver did not release %s: it stays open", d->facts.label);
}

static rcm_status device_set_up(struct rcmi_device *d) {
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->imports_lock, NULL);
    rcmi_condition_init(&d->set_up_changed);
    const rcm_status status = device_thread_start(d);
    if (status == RCM_ERR_TIMEOUT)
        device_give_up(d);
    else if (status != RCM_OK)
        device_free(d);
    return status;
}

static rcm_status device_make(int ordinal, struct rcmi_device **ret_device) {
    struct rcmi_device_facts facts;
    const struct rcmi_cuda *cuda;
    rcm_status status = rcmi_cuda_open(&cuda);
    if (status == RCM_OK)
        status = device_facts_get(cuda, ordinal, &facts);
    if (status == RCM_OK)
        status = facts_check(&facts);
    if (status != RCM_OK)
        return status;
    struct rcmi_device *d = aligned_alloc(_Alignof(struct rcmi_device), sizeof *d);
    if (!d)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %s", facts.label);
    memset(d, 0, sizeof *d);
    d->facts = facts;
    d->cuda = cuda;
    status = device_set_up(d);
    if (status == RCM_OK)
        *ret_device = d;
    return status;
}

static struct rcmi_device *device_of(int ordinal) {
    struct rcmi_device *d = devices;
    while (d && d->facts.ordinal != ordinal)
        d = d->next;
    return d;
}

static bool is_being_opened(int ordinal) {
    const struct device_opening *opening = openings;
    while (opening && opening->ordinal != ordinal)
        opening = opening->next;
    return opening != NULL;
}

static void opening_remove(const struct device_opening *opening) {
    struct device_opening **at = &openings;
    while (*at != opening)
        at = &(*at)->next;
    *at = opening->next;
    pthread_cond_broadcast(&opened);
}

/* The caller holds the lock, which is released while the driver sets up the device. */
static rcm_status device_add(int ordinal, struct rcmi_device **ret_device) {
    struct device_opening opening = {.next = openings, .ordinal = ordinal};
    openings = &opening;
    pthread_mutex_unlock(&lock);
    const rcm_status status = device_make(ordinal, ret_device);
    pthread_mutex_lock(&lock);
    opening_remove(&opening);
    if (status != RCM_OK)
        return status;
    (*ret_device)->next = devices;
    devices = *ret_device;
    return RCM_OK;
}

/* Likewise. */
static rcm_status device_get(int ordinal, struct rcmi_device **ret_device) {
    while (is_being_opened(ordinal))
        pthread_cond_wait(&opened, &lock);
    struct rcmi_device *d = device_of(ordinal);
    const rcm_status status = d ? RCM_OK : device_add(ordinal, &d);
    if (status != RCM_OK)
        return status;
    d->users++;
    *ret_device = d;
    return RCM_OK;
}

rcm_status rcmi_device_open(const char *name, int local_rank, struct rcmi_device **ret_device) {
    int ordinal;
    rcm_status status = rcmi_device_kind_add();
    if (status == RCM_OK)
        status = rcmi_device_find(name, local_rank, &ordinal);
    if (status != RCM_OK)
        return status;
    pthread_mutex_lock(&lock);
    status = device_get(ordinal, ret_device);
    pthread_mutex_unlock(&lock);
    return status;
}

/* The caller holds the lock. */
static void device_remove(const struct rcmi_device *d) {
    struct rcmi_device **at = &devices;
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
}

static void device_stop(struct rcmi_device *d) {
    if (device_thread_stop(d))
        device_free(d);
    else
        device_give_up(d);
}

void rcmi_device_hold(struct rcmi_device *d) {
    if (rcmi_cuda_forked())
        return;
    pthread_mutex_lock(&lock);
    d->users++;
    pthread_mutex_unlock(&lock);
}

/* A forked child does not have its thread, and calls no driver. */
void rcmi_device_close(struct rcmi_device *d) {
    if (!d || rcmi_cuda_forked())
        return;
    pthread_mutex_lock(&lock);
    const bool last = --d->users == 0;
    if (last)
        device_remove(d);
    pthread_mutex_unlock(&lock);
    if (last)
        device_stop(d);
}

const struct rcmi_device_facts *rcmi_device_facts(const struct rcmi_device *d) {
    return &d->facts;
}

/* ---- The function table ---------------------------------------------------------------------- */

/* One query, which needs no context. Managed memory is host memory: the CPU may touch it. The
 * driver returns success for other host memory. Before cuInit, and after the driver shut down at
 * process exit, there is no device memory. */
static rcm_status has(const void *memory, bool *ret_has, int *ret_device) {
    enum rcmi_cuda_pointer_attribute names[] = {RCMI_CUDA_POINTER_MEMORY_TYPE,
                                                RCMI_CUDA_POINTER_IS_MANAGED,
                                                RCMI_CUDA_POINTER_DEVICE_ORDINAL};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *values[] = {&type, &managed, &ordinal};
    const struct rcmi_cuda *cuda = rcmi_cuda_there();
    *ret_has = false;
    if (!cuda)
        return RCM_OK;
    const rcmi_cuda_code code =
        cuda->cuPointerGetAttributes(3, names, values, (rcmi_cuda_address)(uintptr_t)memory);
    if (code == RCMI_CUDA_INVALID_VALUE || code == RCMI_CUDA_NOT_INITIALIZED ||
        code == RCMI_CUDA_DEINITIALIZED)
        return RCM_OK;
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuPointerGetAttributes");
    *ret_device = ordinal;
    *ret_has = type == RCMI_CUDA_MEMORY_DEVICE && !managed;
    return RCM_OK;
}

static int number(const struct rcmi_device *d) {
    return d->facts.ordinal;
}

static const char *label(const struct rcmi_device *d) {
    return d->facts.label;
}

static rcm_status begin(struct rcmi_operation *o) {
    device_submit(*o->all->device, o);
    return RCM_OK;
}

static const struct rcmi_mem_row cuda_row = {.name = "device memory",
                                             .has = has,
                                             .identify = device_identify,
                                             .open = rcmi_device_open,
                                             .locate = rcmi_device_locate,
                                             .close = rcmi_device_close,
                                             .hold = rcmi_device_hold,
                                             .number = number,
                                             .label = label,
                                             .alloc = device_memory_alloc,
                                             .free = device_memory_free,
                                             .do_job = rcmi_device_do,
                                             .begin = begin,
                                             .follow = device_follow,
                                             .explain = device_explain};

static void kind_add(void) {
    rcmi_mem_kind_add(RCMI_MEM_DEVICE, &cuda_row);
}

bool rcmi_device_notice(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!rcmi_cuda_there())
        return false;
    pthread_once(&once, kind_add);
    return true;
}

rcm_status rcmi_device_kind_add(void) {
    const struct rcmi_cuda *cuda;
    const rcm_status status = rcmi_cuda_open(&cuda);
    if (status == RCM_OK)
        (void)rcmi_device_notice();
    return status;
}
