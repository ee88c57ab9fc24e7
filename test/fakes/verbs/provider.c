/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests say and see of the played devices, which are in played/. */
#include "played/played.h"
#include <errno.h>
#include <string.h>

struct played played = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

uint32_t played_random(void) {
    played.random_state ^= played.random_state << 13;
    played.random_state ^= played.random_state >> 17;
    played.random_state ^= played.random_state << 5;
    return played.random_state;
}

bool played_call_fails(enum provider_call call) {
    pthread_mutex_lock(&played.lock);
    const bool fails = ++played.calls[call] == played.fail_call[call];
    pthread_mutex_unlock(&played.lock);
    if (fails)
        errno = played.fail_error;
    return fails;
}

void *played_make(size_t bytes) {
    pthread_mutex_lock(&played.lock);
    played.objects++;
    pthread_mutex_unlock(&played.lock);
    void *object = calloc(1, bytes);
    REQUIRE(object);
    return object;
}

int played_unmake(void *object) {
    pthread_mutex_lock(&played.lock);
    played.objects--;
    pthread_mutex_unlock(&played.lock);
    free(object);
    return 0;
}

int played_ended(enum provider_call call) {
    return played_call_fails(call) ? played.fail_error : 0;
}

static struct verbs_table table;
static bool named;

/* iWARP is used only if it is. */
static void devices_name(void) {
    char list[DEVICES_MAX * 8] = "";
    if (played.setup.kind != PROVIDER_IWARP || getenv("RINGCOMM_VERBS_DEVICES"))
        return;
    for (int i = 0, used = 0; i < played.setup.devices; i++)
        used += snprintf(list + used, sizeof list - (size_t)used, "%sfake%d", i ? "," : "", i);
    named = setenv("RINGCOMM_VERBS_DEVICES", list, 1) == 0;
}

void provider_install(const struct provider_setup *what) {
    played.setup = *what;
    if (played.setup.kind == PROVIDER_HARDWARE && !played.setup.layer && getenv("PLAYED_IWARP"))
        played.setup.kind = PROVIDER_IWARP;
    played.random_state = played.setup.seed ? played.setup.seed : 1;
    memset(played.calls, 0, sizeof played.calls);
    memset(played.fail_call, 0, sizeof played.fail_call);
    memset(&played.counts, 0, sizeof played.counts);
    played.carried_out = played.fail_send_number = 0;
    played.stop = played.cut = played.held = played.silent = false;
    played.garbled = -1;
    played.slow_ms = 0;
    for (int i = 0; i < played.setup.devices; i++) {
        played_device(&played.devices[i], i);
    }
    REQUIRE(played.setup.devices <= DEVICES_MAX &&
            pthread_create(&played.hardware, NULL, played_hardware, NULL) == 0);
    played_devices(&table);
    played_memory(&table);
    played_completions(&table);
    played_queue_pairs(&table);
    played_connect(&table);
    played_cm(&table);
    devices_name();
    verbs_table_set(&table);
}

static void fork_begin(void) {
    pthread_mutex_lock(&played.lock);
}

static void fork_end(void) {
    pthread_mutex_unlock(&played.lock);
}

static void fork_child(void) {
    pthread_mutex_unlock(&played.lock);
    pthread_cond_init(&played.work, NULL);
    REQUIRE(pthread_create(&played.hardware, NULL, played_hardware, NULL) == 0);
}

void provider_follow_forks(void) {
    REQUIRE(pthread_atfork(fork_begin, fork_end, fork_child) == 0);
}

void provider_remove(void) {
    pthread_mutex_lock(&played.lock);
    played.stop = true;
    pthread_cond_signal(&played.work);
    pthread_mutex_unlock(&played.lock);
    pthread_join(played.hardware, NULL);
    verbs_table_set(NULL);
    if (named)
        unsetenv("RINGCOMM_VERBS_DEVICES");
    named = false;
    REQUIRE(played.objects == 0);
    for (int i = 0; i < QPS_MAX; i++)
        REQUIRE(!played.qps[i].used);
    for (int i = 0; i < MRS_MAX; i++)
        REQUIRE(!played.mrs[i].used);
}

void provider_fail_call_with(enum provider_call call, int number, int error) {
    pthread_mutex_lock(&played.lock);
    played.fail_call[call] = number ? played.calls[call] + number : 0;
    played.fail_error = error;
    pthread_mutex_unlock(&played.lock);
}

void provider_fail_call(enum provider_call call, int number) {
    provider_fail_call_with(call, number, call == PROVIDER_REG_MR ? ENOMEM : EIO);
}

void provider_fail_send(enum ibv_wc_status status, int number) {
    pthread_mutex_lock(&played.lock);
    played.fail_send_status = status;
    played.fail_send_number = number ? played.carried_out + number : 0;
    pthread_mutex_unlock(&played.lock);
}

int provider_calls(enum provider_call call) {
    pthread_mutex_lock(&played.lock);
    const int n = played.calls[call];
    pthread_mutex_unlock(&played.lock);
    return n;
}

void provider_cut(bool is_cut) {
    pthread_mutex_lock(&played.lock);
    played.cut = is_cut;
    pthread_cond_signal(&played.work);
    pthread_mutex_unlock(&played.lock);
}

void provider_slow_connect(int64_t ms) {
    pthread_mutex_lock(&played.lock);
    played.slow_ms = ms;
    pthread_mutex_unlock(&played.lock);
}

void provider_garble(int type) {
    pthread_mutex_lock(&played.lock);
    played.garbled = type;
    pthread_mutex_unlock(&played.lock);
}

void provider_silent(bool is_silent) {
    pthread_mutex_lock(&played.lock);
    played.silent = is_silent;
    pthread_mutex_unlock(&played.lock);
}

void provider_hold(bool is_held) {
    pthread_mutex_lock(&played.lock);
    played.held = is_held;
    pthread_cond_signal(&played.work);
    pthread_mutex_unlock(&played.lock);
}

bool provider_idle(void) {
    bool idle = true;
    pthread_mutex_lock(&played.lock);
    for (int i = 0; i < QPS_MAX; i++)
        idle = idle && !(played.qps[i].used && played.qps[i].carried < played.qps[i].posted);
    pthread_mutex_unlock(&played.lock);
    return idle;
}

/* Under the lock. */
static void qp_event(struct fake_qp *qp, enum ibv_event_type type) {
    struct ibv_async_event event = {.event_type = type};
    event.element.qp = &qp->base;
    if (type != IBV_EVENT_DEVICE_FATAL)
        played_event(qp->base.context->device, &event);
    qp->base.state = IBV_QPS_ERR;
    if (type == IBV_EVENT_DEVICE_FATAL) /* it does nothing any more */
        qp->carried = qp->posted;
}

void provider_event(int device, enum ibv_event_type type) {
    const bool of_queue_pairs = type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
                                type == IBV_EVENT_QP_ACCESS_ERR;
    struct ibv_async_event event = {.event_type = type};
    event.element.port_num = 1;
    pthread_mutex_lock(&played.lock);
    for (int i = 0; i < QPS_MAX; i++) {
        struct fake_qp *qp = &played.qps[i];
        if ((of_queue_pairs || type == IBV_EVENT_DEVICE_FATAL) && qp->used &&
            qp->base.context->device == &played.devices[device])
            qp_event(qp, type);
    }
    if (!of_queue_pairs)
        played_event(&played.devices[device], &event);
    pthread_mutex_unlock(&played.lock);
}

int provider_queue_pairs(int device) {
    int n = 0;
    pthread_mutex_lock(&played.lock);
    for (int i = 0; i < QPS_MAX; i++)
        n += played.qps[i].used && played.qps[i].base.context->device == &played.devices[device];
    pthread_mutex_unlock(&played.lock);
    return n;
}

struct provider_counts provider_counts(void) {
    pthread_mutex_lock(&played.lock);
    const struct provider_counts now = played.counts;
    pthread_mutex_unlock(&played.lock);
    return now;
}
