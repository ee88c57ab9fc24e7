/* SPDX-License-Identifier: BSD-3-Clause */
#include "harness.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "clock.h"

const char *test_transport = "tcp";
bool test_self;

static _Atomic int64_t deadline; /* of the running test; read by the test's threads */
static bool in_child;

/* ---- Checks -------------------------------------------------------------------------------- */

static bool on_test_thread(void) {
    static pthread_t test_thread;
    static bool known;
    if (!known) {
        test_thread = pthread_self();
        known = true;
    }
    return pthread_equal(test_thread, pthread_self());
}

static void check_fail(const char *what, const char *file, int line) {
    const struct rcmi_error *error = rcmi_last_error();
    fprintf(stderr, "%s:%d: failed%s: %s (last error: %s \"%s\")\n", file, line,
            in_child ? " in the child" : "", what, rcm_status_name(error->status), error->text);
    if (in_child)
        _exit(1);
    if (!on_test_thread())
        abort();
    fail_msg("%s:%d: %s", file, line, what);
}

void check(bool holds, const char *what, const char *file, int line) {
    if (!holds)
        check_fail(what, file, line);
}

void check_equal(long long left, long long right, const char *what, const char *file, int line) {
    if (left == right)
        return;
    fprintf(stderr, "%lld is not %lld\n", left, right);
    check_fail(what, file, line);
}

int slowness(void) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return 5;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
    return 5;
#endif
#endif
    return getenv("RINGCOMM_VERBS_DEVICES") ? 3 : 1;
}

int rounds(int n) {
    const bool slow = getenv("RINGCOMM_VERBS_DEVICES") && !getenv("FAKE_IWARP");
    return slow || transport_row()->kind == RCMI_MEM_DEVICE ? (n + 4) / 5 : n;
}

void limit_ms(int64_t ms) {
    (void)on_test_thread();
    atomic_store(&deadline, rcmi_deadline_in(ms * slowness()));
}

rcmi_deadline limit(void) {
    return atomic_load(&deadline);
}

void nap(void) {
    const struct timespec tenth = {0, 100000};
    nanosleep(&tenth, NULL);
    CHECK(!rcmi_deadline_passed(limit()));
}

/* ---- Repeats ------------------------------------------------------------------------------- */

#define REPEATS_NS INT64_C(2000000000)

struct repeats repeats_begin(uint32_t most) {
    return (struct repeats){.most = most / (uint32_t)slowness(),
                            .end_ns = rcmi_now_ns() + REPEATS_NS};
}

bool repeats_last(const struct repeats *repeats, uint32_t n) {
    return n + 1 >= repeats->most || rcmi_now_ns() >= repeats->end_ns;
}

/* ---- World --------------------------------------------------------------------------------- */

struct world *world_new(void) {
    struct world *world =
        mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(world != MAP_FAILED);
    return world;
}

void world_free(struct world *world) {
    munmap(world, sizeof *world);
}

void flag_wait(struct world *world, int flag) {
    while (!atomic_load(&world->flag[flag]))
        nap();
}

void flag_set(struct world *world, int flag) {
    atomic_store(&world->flag[flag], 1);
}

static rcm_status world_lookup(void *arg, int peer, const void **ret_blob, size_t *ret_len) {
    const struct side *side = arg;
    uint32_t len = atomic_load_explicit(&side->world->address[peer].len, memory_order_acquire);
    if (len == 0)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "rank %d has published no address", peer);
    *ret_blob = side->world->address[peer].blob;
    *ret_len = len;
    return RCM_OK;
}

/* ---- Callbacks ----------------------------------------------------------------------------- */

static void side_lost(void *arg, int peer, const struct rcmi_error *why) {
    struct side *side = arg;
    atomic_store(&side->lost_peer, peer);
    atomic_store(&side->lost_status, why->status);
    atomic_store(&side->lost_at, rcmi_now_ns());
    if (atomic_load(&side->lost) == 0)
        snprintf(side->lost_text, sizeof side->lost_text, "%.399s", why->text);
    atomic_fetch_add(&side->lost, 1);
}

static size_t message_len(uint32_t number) {
    return 1 + number * 97u % 4096u;
}

static void side_message(void *arg, int peer, const void *bytes, size_t len) {
    struct side *side = arg;
    uint32_t number = atomic_load(&side->received[peer]);
    if (len != message_len(number) || !filled(bytes, len, number))
        atomic_fetch_add(&side->bad, 1);
    atomic_fetch_add(&side->received[peer], 1);
}

static void side_wanted(void *arg, int peer, uint64_t epoch, uint32_t id) {
    struct side *side = arg;
    (void)peer;
    atomic_store(&side->wanted_epoch, epoch);
    atomic_store(&side->wanted_id, id);
    atomic_fetch_add(&side->wanted, 1);
}

static rcmi_deadline side_tick(void *arg) {
    (void)arg;
    return RCMI_NEVER;
}

/* ---- Sides --------------------------------------------------------------------------------- */

/* A rank of a device-memory backend has its device from the start. */
static void side_device(struct side *side) {
    if (transport_row()->kind == RCMI_MEM_HOST)
        return;
    CHECK_EQ(rcmi_rank_device_init(&side->device, "auto"), RCM_OK);
    side->device.local_rank = side->rank;
    side->device.node = side->node;
    CHECK_EQ(rcmi_rank_device_open(&side->device, limit()), RCM_OK);
}

rcm_status side_try(struct side *side, struct world *world, int rank, const struct setup *setup) {
    char rows[64];
    memset(side, 0, sizeof *side);
    snprintf(rows, sizeof rows, "%s,%s", link_transport(), test_transport);
    const char *own = transport_row()->kind == RCMI_MEM_HOST ? test_transport : rows;
    side->rank = rank;
    side->world = world;
    side->setup = *setup;
    struct rcmi_node_config config = {
        .rank = rank,
        .nranks = setup->nranks ? setup->nranks : 2,
        .job = setup->job ? setup->job : 4711,
        .host_id = setup->host_id ? setup->host_id : "test-host",
        .transports = setup->transports ? setup->transports : own,
        .secret = setup->secret,
        .iface = "lo",
        .ports = "",
        .slot_bytes = setup->slot_bytes ? setup->slot_bytes : 4096,
        .slots = setup->slots ? setup->slots : 4,
        .local_rank = rank,
        .lookup = world_lookup,
        .peer_lost = side_lost,
        .message = side_message,
        .wanted = side_wanted,
        .tick = side_tick,
        .arg = side,
    };
    return rcmi_node_create(&config, &side->node);
}

void side_create(struct side *side, struct world *world, int rank, const struct setup *setup) {
    CHECK_EQ(side_try(side, world, rank, setup), RCM_OK);
    side_device(side);
    const void *blob;
    size_t len;
    rcmi_node_address(side->node, &blob, &len);
    CHECK(len > 0 && len <= sizeof world->address[rank].blob);
    memcpy(world->address[rank].blob, blob, len);
    atomic_store_explicit(&world->address[rank].len, (uint32_t)len, memory_order_release);
}

void side_start(struct side *side) {
    CHECK_EQ(rcmi_node_start(side->node), RCM_OK);
}

void side_destroy(struct side *side) {
    rcmi_node_destroy(side->node);
    side->node = NULL;
    if (side->device.name)
        rcmi_rank_device_end(&side->device);
    side->device.name = NULL;
}

void side_send(struct side *side, int peer) {
    uint8_t bytes[4096];
    uint32_t number = side->sent[peer]++;
    fill(bytes, message_len(number), number);
    CHECK_EQ(rcmi_node_send(side->node, peer, bytes, message_len(number)), RCM_OK);
}

void side_drive(struct side *side) {
    if (rcmi_node_progress(side->node))
        return;
    CHECK(!rcmi_deadline_passed(limit()));
    sched_yield();
}

void side_ready(struct side *side, struct rcmi_channel *channel) {
    rcm_status status;
    while ((status = rcmi_channel_state(channel)) == RCM_AGAIN)
        side_drive(side);
    CHECK_EQ(status, RCM_OK);
    CHECK_EQ(rcmi_channel_kind(channel), transport_row()->kind);
}

void *side_reserve(struct side *side, struct rcmi_channel *channel) {
    void *slot = NULL;
    rcm_status status;
    while ((status = reserve_slot(channel, &slot)) == RCM_AGAIN)
        side_drive(side);
    CHECK_EQ(status, RCM_OK);
    return slot;
}

struct rcmi_slot side_peek(struct side *side, struct rcmi_channel *channel) {
    struct rcmi_slot slot = {0};
    rcm_status status;
    while ((status = rcmi_channel_peek(channel, &slot)) == RCM_AGAIN)
        side_drive(side);
    CHECK_EQ(status, RCM_OK);
    return slot;
}

struct rcmi_slot side_peek_asleep(struct side *side, struct rcmi_channel *channel) {
    struct rcmi_slot slot = {0};
    rcm_status status;
    while ((status = rcmi_channel_peek(channel, &slot)) == RCM_AGAIN) {
        CHECK(!rcmi_deadline_passed(limit()));
        if (rcmi_node_progress(side->node))
            continue;
        struct rcmi_sleep sleep;
        rcmi_node_sleep_begin(side->node, &sleep);
        int64_t before = rcmi_now_ns();
        if (rcmi_channel_peek(channel, &slot) == RCM_AGAIN)
            rcmi_node_sleep_until(side->node, &sleep, limit());
        rcmi_node_sleep_end(side->node, &sleep);
        /* The peer never pauses that long: a longer sleep means that the wake-up was lost. */
        CHECK(rcmi_now_ns() - before < 1500000000LL * slowness());
    }
    CHECK_EQ(status, RCM_OK);
    return slot;
}

/* ---- Pairs --------------------------------------------------------------------------------- */

void pair_open(struct pair *pair, const struct setup *setup) {
    struct setup own = *setup;
    memset(pair, 0, sizeof *pair);
    own.nranks = test_self ? 1 : own.nranks;
    pair->world = world_new();
    pair->a = &pair->sides[0];
    pair->b = &pair->sides[test_self ? 0 : 1];
    pair->other = test_self ? 0 : 1;
    side_create(pair->a, pair->world, 0, &own);
    if (!test_self)
        side_create(pair->b, pair->world, 1, &own);
    side_start(pair->a);
    if (!test_self)
        side_start(pair->b);
}

void pair_close(struct pair *pair) {
    side_destroy(pair->a);
    if (!test_self)
        side_destroy(pair->b);
    world_free(pair->world);
}

void pair_drive(struct pair *pair) {
    bool moved = rcmi_node_progress(pair->a->node);
    if (!test_self)
        moved = rcmi_node_progress(pair->b->node) || moved;
    CHECK(!rcmi_deadline_passed(limit()));
    if (!moved)
        sched_yield();
}

void pair_channel(struct pair *pair, uint32_t id, struct rcmi_channel **ret_writer,
                  struct rcmi_channel **ret_reader) {
    const int readers[1] = {pair->other};
    CHECK_EQ(rcmi_channel_open_writer(pair->a->node, 7, row_id(id), readers, 1, ret_writer),
             RCM_OK);
    CHECK_EQ(rcmi_channel_open_reader(pair->b->node, 7, row_id(id), 0, ret_reader), RCM_OK);
    while (rcmi_channel_state(*ret_writer) == RCM_AGAIN ||
           rcmi_channel_state(*ret_reader) == RCM_AGAIN)
        pair_drive(pair);
    side_ready(pair->a, *ret_writer);
    side_ready(pair->b, *ret_reader);
}

/* ---- Children ------------------------------------------------------------------------------ */

static pid_t child_fork(void) {
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        in_child = true;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return pid;
}

pid_t child_start(struct world *world, int rank, const struct setup *setup,
                  void (*fn)(struct side *side)) {
    const pid_t pid = child_fork();
    if (pid)
        return pid;
    struct side side;
    side_create(&side, world, rank, setup);
    fn(&side);
    _exit(0);
}

void child_join(pid_t pid) {
    int status;
    pid_t done;
    while ((done = waitpid(pid, &status, WNOHANG)) == 0)
        nap();
    CHECK_EQ(done, pid);
    CHECK_EQ(status, 0);
}

void child_run(void (*run)(int i), int i) {
    const pid_t pid = child_fork();
    if (pid == 0) {
        const int before = fd_count();
        run(i);
        CHECK_EQ(fd_count(), before);
        _exit(0);
    }
    child_join(pid);
}

void children_run(int n, void (*run)(int i)) {
    pid_t pids[CHILDREN_MAX];
    CHECK(n <= CHILDREN_MAX);
    for (int i = 0; i < n; i++) {
        pids[i] = child_fork();
        if (pids[i] == 0) {
            run(i);
            _exit(0);
        }
    }
    for (int i = 0; i < n; i++)
        child_join(pids[i]);
}

void child_kill(pid_t pid) {
    int status;
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
}

/* ---- Small things -------------------------------------------------------------------------- */

static uint8_t pattern(size_t i, uint64_t seed) {
    return (uint8_t)(seed * 37 + i * 11 + (i >> 8) * 3 + 5);
}

void fill(void *bytes, size_t len, uint64_t seed) {
    uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        at[i] = pattern(i, seed);
}

bool filled(const void *bytes, size_t len, uint64_t seed) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        if (at[i] != pattern(i, seed))
            return false;
    return true;
}

uint32_t random_next(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static bool fd_is_memory(int dir, const char *name) {
    static const char emulated[] = "/memfd:fake-gpu";
    char to[sizeof emulated] = "";
    return readlinkat(dir, name, to, sizeof to - 1) > 0 && strcmp(to, emulated) == 0;
}

static int fd_count_of(bool memory) {
    const struct dirent *entry;
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)))
        n += fd_is_memory(dirfd(dir), entry->d_name) == memory;
    closedir(dir);
    return n;
}

int fd_count(void) {
    return fd_count_of(false);
}

int fd_count_memory(void) {
    return fd_count_of(true);
}

/* The name without "chaos:". */
static const char *inner_transport(void) {
    const char *colon = strchr(test_transport, ':');
    return colon ? colon + 1 : test_transport;
}

bool transport_is(const char *name) {
    return strcmp(inner_transport(), name) == 0;
}

const struct rcmi_transport *transport_row(void) {
    for (int i = 0; rcmi_transports[i]; i++)
        if (transport_is(rcmi_transports[i]->name))
            return rcmi_transports[i];
    fail_msg("there is no transport %s", test_transport);
    return NULL;
}

const char *link_transport(void) {
    if (transport_row()->kind == RCMI_MEM_HOST)
        return test_transport;
    for (int i = 0; rcmi_transports[i]; i++) {
        const struct rcmi_transport *row = rcmi_transports[i];
        if (row->kind == RCMI_MEM_HOST && row->same_host && !row->loops_back)
            return row->name;
    }
    fail_msg("there is no transport for the host plane next to %s", test_transport);
    return NULL;
}

uint32_t row_id(uint32_t id) {
    return transport_row()->kind == RCMI_MEM_DEVICE ? id | RCMI_ID_DEVICE : id;
}

size_t row_scale(void) {
    return transport_row()->kind == RCMI_MEM_DEVICE ? RCMI_DEVICE_SLOT_SCALE : 1;
}
