/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests' interface to the fake devices. */
#include "fake_verbs.h"
#include <errno.h>
#include <string.h>

struct fake_verbs fake = {.lock = PTHREAD_MUTEX_INITIALIZER,
                          .work = PTHREAD_COND_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};

uint32_t fake_verbs_random(void) {
    fake.random_state ^= fake.random_state << 13;
    fake.random_state ^= fake.random_state >> 17;
    fake.random_state ^= fake.random_state << 5;
    return fake.random_state;
}

bool fake_verbs_call_fails(enum provider_call call) {
    pthread_mutex_lock(&fake.lock);
    const bool fails = ++fake.calls[call] == fake.fail_call[call];
    pthread_mutex_unlock(&fake.lock);
    if (fails)
        errno = fake.fail_error;
    return fails;
}

void *fake_verbs_make(size_t bytes) {
    pthread_mutex_lock(&fake.lock);
    fake.objects++;
    pthread_mutex_unlock(&fake.lock);
    void *object = calloc(1, bytes);
    REQUIRE(object);
    return object;
}

int fake_verbs_unmake(void *object) {
    pthread_mutex_lock(&fake.lock);
    fake.objects--;
    pthread_mutex_unlock(&fake.lock);
    free(object);
    return 0;
}

int fake_verbs_ended(enum provider_call call) {
    return fake_verbs_call_fails(call) ? fake.fail_error : 0;
}

static struct verbs_table table;
static bool named;

/* Sets RINGCOMM_VERBS_DEVICES, because iWARP is used only if it is named. */
static void devices_name(void) {
    char list[DEVICES_MAX * 8] = "";
    if (fake.setup.kind != PROVIDER_IWARP || getenv("RINGCOMM_VERBS_DEVICES"))
        return;
    for (int i = 0, used = 0; i < fake.setup.devices; i++)
        used += snprintf(list + used, sizeof list - (size_t)used, "%sfake%d", i ? "," : "", i);
    named = setenv("RINGCOMM_VERBS_DEVICES", list, 1) == 0;
}

/* Returns when the thread runs. A fork while it starts could leave locks of a sanitizer held in the
 * child, whose own thread then could not be created. */
static void hardware_start(void) {
    fake.begun = false;
    REQUIRE(pthread_create(&fake.hardware, NULL, fake_verbs_hardware, NULL) == 0);
    pthread_mutex_lock(&fake.lock);
    while (!fake.begun)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
}

void provider_install(const struct provider_setup *what) {
    fake.setup = *what;
    if (fake.setup.kind == PROVIDER_HARDWARE && !fake.setup.layer && getenv("FAKE_IWARP"))
        fake.setup.kind = PROVIDER_IWARP;
    fake.random_state = fake.setup.seed ? fake.setup.seed : 1;
    memset(fake.calls, 0, sizeof fake.calls);
    memset(fake.fail_call, 0, sizeof fake.fail_call);
    memset(&fake.counts, 0, sizeof fake.counts);
    fake.carried_out = fake.fail_send_number = 0;
    fake.stop = fake.cut = fake.held = fake.silent = false;
    fake.garbled = -1;
    fake.slow_ms = 0;
    for (int i = 0; i < fake.setup.devices; i++) {
        fake_verbs_device(&fake.devices[i], i);
    }
    REQUIRE(fake.setup.devices <= DEVICES_MAX);
    hardware_start();
    fake_verbs_devices(&table);
    fake_verbs_memory(&table);
    fake_verbs_completions(&table);
    fake_verbs_queue_pairs(&table);
    fake_verbs_connect(&table);
    fake_verbs_cm(&table);
    devices_name();
    verbs_table_set(&table);
}

static void fork_begin(void) {
    pthread_mutex_lock(&fake.lock);
}

static void fork_end(void) {
    pthread_mutex_unlock(&fake.lock);
}

static void fork_child(void) {
    pthread_mutex_unlock(&fake.lock);
    pthread_cond_init(&fake.work, NULL);
    REQUIRE(pthread_create(&fake.hardware, NULL, fake_verbs_hardware, NULL) == 0);
}

void provider_follow_forks(void) {
    REQUIRE(pthread_atfork(fork_begin, fork_end, fork_child) == 0);
}

void provider_remove(void) {
    pthread_mutex_lock(&fake.lock);
    fake.stop = true;
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(fake.hardware, NULL);
    verbs_table_set(NULL);
    if (named)
        unsetenv("RINGCOMM_VERBS_DEVICES");
    named = false;
    REQUIRE(fake.objects == 0);
    for (int i = 0; i < QPS_MAX; i++)
        REQUIRE(!fake.qps[i].used);
    for (int i = 0; i < MRS_MAX; i++)
        REQUIRE(!fake.mrs[i].used);
}

void provider_fail_call_with(enum provider_call call, int number, int error) {
    pthread_mutex_lock(&fake.lock);
    fake.fail_call[call] = number ? fake.calls[call] + number : 0;
    fake.fail_error = error;
    pthread_mutex_unlock(&fake.lock);
}

void provider_fail_call(enum provider_call call, int number) {
    provider_fail_call_with(call, number, call == PROVIDER_REG_MR ? ENOMEM : EIO);
}

void provider_fail_send(enum ibv_wc_status status, int number) {
    pthread_mutex_lock(&fake.lock);
    fake.fail_send_status = status;
    fake.fail_send_number = number ? fake.carried_out + number : 0;
    pthread_mutex_unlock(&fake.lock);
}

int provider_calls(enum provider_call call) {
    pthread_mutex_lock(&fake.lock);
    const int n = fake.calls[call];
    pthread_mutex_unlock(&fake.lock);
    return n;
}

void provider_cut(bool is_cut) {
    pthread_mutex_lock(&fake.lock);
    fake.cut = is_cut;
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
}

void provider_slow_connect(int64_t ms) {
    pthread_mutex_lock(&fake.lock);
    fake.slow_ms = ms;
    pthread_mutex_unlock(&fake.lock);
}

void provider_garble(int type) {
    pthread_mutex_lock(&fake.lock);
    fake.garbled = type;
    pthread_mutex_unlock(&fake.lock);
}

void provider_silent(bool is_silent) {
    pthread_mutex_lock(&fake.lock);
    fake.silent = is_silent;
    pthread_mutex_unlock(&fake.lock);
}

void provider_hold(bool is_held) {
    pthread_mutex_lock(&fake.lock);
    fake.held = is_held;
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
}

bool provider_idle(void) {
    bool idle = true;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < QPS_MAX; i++)
        idle = idle && !(fake.qps[i].used && fake.qps[i].carried < fake.qps[i].posted);
    pthread_mutex_unlock(&fake.lock);
    return idle;
}

/* Under the lock. */
static void qp_event(struct fake_qp *qp, enum ibv_event_type type) {
    struct ibv_async_event event = {.event_type = type};
    event.element.qp = &qp->base;
    if (type != IBV_EVENT_DEVICE_FATAL)
        fake_verbs_event(qp->base.context->device, &event);
    qp->base.state = IBV_QPS_ERR;
    if (type == IBV_EVENT_DEVICE_FATAL) /* a dead device executes nothing */
        qp->carried = qp->posted;
}

void provider_event(int device, enum ibv_event_type type) {
    const bool of_queue_pairs = type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
                                type == IBV_EVENT_QP_ACCESS_ERR;
    struct ibv_async_event event = {.event_type = type};
    event.element.port_num = 1;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < QPS_MAX; i++) {
        struct fake_qp *qp = &fake.qps[i];
        if ((of_queue_pairs || type == IBV_EVENT_DEVICE_FATAL) && qp->used &&
            qp->base.context->device == &fake.devices[device])
            qp_event(qp, type);
    }
    if (!of_queue_pairs)
        fake_verbs_event(&fake.devices[device], &event);
    pthread_mutex_unlock(&fake.lock);
}

int provider_queue_pairs(int device) {
    int n = 0;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < QPS_MAX; i++)
        n += fake.qps[i].used && fake.qps[i].base.context->device == &fake.devices[device];
    pthread_mutex_unlock(&fake.lock);
    return n;
}

struct provider_counts provider_counts(void) {
    pthread_mutex_lock(&fake.lock);
    const struct provider_counts now = fake.counts;
    pthread_mutex_unlock(&fake.lock);
    return now;
}
