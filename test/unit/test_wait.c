/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells: no wake-up is lost between threads, between processes, or for an engine that sleeps in
 * poll, and deadlines are kept. Pauses: their budget depends on the CPUs and the setting.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cgroup.h"
#include "check.h"
#include "wait.h"

enum { ROUNDS = 20000, LOST_MS = 10000 };

/* Two sides alternate; side 0 begins. Each has its own doorbell, as a process has. */
struct table {
    struct rcmi_doorbell doorbells[2];
    _Alignas(RCMI_LINE) _Atomic uint32_t turns[2]; /* turns made by side i */
    uint32_t plain[2];                             /* written before the turn, read after it */
    int eventfd[2]; /* -1: sleeps on the futex; else in poll as an engine */
};

struct side {
    struct table *table;
    int number;
    bool pause; /* spin and yield before sleeping */
    int failed; /* 0, or the line that failed */
};

static bool turn_came(struct table *table, int other, uint32_t turn) {
    return atomic_load_explicit(&table->turns[other], memory_order_acquire) >= turn;
}

static void side_sleep(struct side *side, uint32_t turn, rcmi_deadline deadline) {
    struct table *table = side->table;
    struct rcmi_doorbell *doorbell = &table->doorbells[side->number];
    int fd = table->eventfd[side->number];
    uint32_t bit = fd < 0 ? RCMI_DOORBELL_FUTEX_ONE : RCMI_DOORBELL_ENGINE;
    uint32_t seen = rcmi_doorbell_arm(doorbell, bit);
    if (!turn_came(table, 1 - side->number, turn)) {
        if (fd < 0) {
            rcmi_doorbell_sleep(doorbell, seen, deadline);
        } else {
            struct pollfd entry = {.fd = fd, .events = POLLIN};
            uint64_t count;
            if (poll(&entry, 1, rcmi_deadline_left_ms(deadline)) == 1 &&
                read(fd, &count, sizeof count) < 0)
                side->failed = __LINE__;
        }
    }
    rcmi_doorbell_disarm(doorbell, bit);
}

static void side_await(struct side *side, uint32_t turn) {
    struct rcmi_pause pause = {.yields = 0};
    if (side->pause)
        pause = rcmi_pause_budget(2);
    rcmi_deadline lost = rcmi_deadline_in(LOST_MS);
    while (!side->failed && !turn_came(side->table, 1 - side->number, turn)) {
        if (rcmi_pause(&pause))
            continue;
        side_sleep(side, turn, lost);
        /* It slept until the deadline: the turn did not come, or its wake-up was lost. */
        if (rcmi_deadline_passed(lost))
            side->failed = __LINE__;
    }
}

static void *side_play(void *arg) {
    struct side *side = arg;
    struct table *table = side->table;
    int other = 1 - side->number;
    for (uint32_t turn = 1; turn <= ROUNDS && !side->failed; turn++) {
        side_await(side, side->number == 0 ? turn - 1 : turn);
        uint32_t expected = side->number == 0 ? turn - 1 : turn;
        if (table->plain[other] != expected && !side->failed)
            side->failed = __LINE__;
        table->plain[side->number] = turn;
        atomic_store_explicit(&table->turns[side->number], turn, memory_order_release);
        rcmi_doorbell_ring(&table->doorbells[other], table->eventfd[other]);
    }
    return NULL;
}

static struct table *table_map(bool engine) {
    void *base =
        mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    struct table *table = base;
    for (int i = 0; i < 2; i++)
        table->eventfd[i] = engine ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    return table;
}

static void table_unmap(struct table *table) {
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&table->doorbells[i].armed), 0);
        if (table->eventfd[i] >= 0)
            close(table->eventfd[i]);
    }
    munmap(table, sizeof *table);
}

static void play_threads(bool engine, bool pause) {
    struct table *table = table_map(engine);
    struct side sides[2] = {{table, 0, pause, 0}, {table, 1, pause, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, side_play, &sides[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sides[0].failed, 0);
    assert_int_equal(sides[1].failed, 0);
    assert_int_equal(atomic_load(&table->turns[1]), ROUNDS);
    table_unmap(table);
}

static void play_processes(bool engine, bool pause) {
    struct table *table = table_map(engine);
    pid_t pid = fork();
    assert_true(pid >= 0);
    struct side side = {table, pid == 0, pause, 0};
    if (pid == 0) {
        alarm(50);
        side_play(&side);
        _exit(side.failed ? 1 : 0);
    }
    side_play(&side);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(side.failed, 0);
    assert_int_equal(atomic_load(&table->turns[1]), ROUNDS);
    table_unmap(table);
}

static void test_threads_sleep(void **state) {
    (void)state;
    play_threads(false, false);
}

static void test_threads_pause(void **state) {
    (void)state;
    play_threads(false, true);
}

static void test_threads_engine(void **state) {
    (void)state;
    play_threads(true, false);
}

static void test_processes_sleep(void **state) {
    (void)state;
    play_processes(false, false);
}

static void test_processes_pause(void **state) {
    (void)state;
    play_processes(false, true);
}

static void test_processes_engine(void **state) {
    (void)state;
    play_processes(true, false);
}

/* ---- Several sleepers on one doorbell ------------------------------------------------------- */

enum { SLEEPERS = 4 };

struct sleepers {
    struct rcmi_doorbell doorbell;
    _Atomic int open, through;
};

static void *sleeper_wait(void *arg) {
    struct sleepers *sleepers = arg;
    rcmi_deadline lost = rcmi_deadline_in(LOST_MS);
    while (!atomic_load(&sleepers->open) && !rcmi_deadline_passed(lost)) {
        uint32_t seen = rcmi_doorbell_arm(&sleepers->doorbell, RCMI_DOORBELL_FUTEX_ONE);
        if (!atomic_load(&sleepers->open))
            rcmi_doorbell_sleep(&sleepers->doorbell, seen, lost);
        rcmi_doorbell_disarm(&sleepers->doorbell, RCMI_DOORBELL_FUTEX_ONE);
    }
    if (!rcmi_deadline_passed(lost))
        atomic_fetch_add(&sleepers->through, 1);
    return NULL;
}

static void test_many_sleepers(void **state) {
    (void)state;
    struct sleepers sleepers;
    memset(&sleepers, 0, sizeof sleepers);
    pthread_t threads[SLEEPERS];
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleeper_wait, &sleepers), 0);
    rcmi_deadline lost = rcmi_deadline_in(LOST_MS);
    while (atomic_load(&sleepers.doorbell.armed) != SLEEPERS && !rcmi_deadline_passed(lost))
        sched_yield();
    assert_int_equal(atomic_load(&sleepers.doorbell.armed), SLEEPERS);
    atomic_store(&sleepers.open, 1);
    rcmi_doorbell_ring(&sleepers.doorbell, -1);
    for (int i = 0; i < SLEEPERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&sleepers.through), SLEEPERS);
    assert_int_equal(atomic_load(&sleepers.doorbell.armed), 0);
}

/* ---- Arming and ringing at the same moment --------------------------------------------------- */

/*
 * Both sides meet. Then one arms and checks the condition, while the other publishes it and rings.
 * If the sleeper did not see the condition, the ringer must have changed the word, or the sleeper
 * would never wake. The fences ensure this. Without them the test usually fails within these two
 * seconds if two CPUs are free. Stops after RACE_MS or RACES.
 */
enum { RACES = 400000, RACE_MS = 2000 };

struct race {
    struct rcmi_doorbell doorbell;
    _Alignas(RCMI_LINE) _Atomic uint32_t round;     /* begun by the sleeper */
    _Alignas(RCMI_LINE) _Atomic uint32_t published; /* the condition */
    _Alignas(RCMI_LINE) _Atomic uint32_t rung;      /* rounds that the ringer has finished */
    _Alignas(RCMI_LINE) _Atomic bool stop;
};

/* The partner may have no CPU, so this yields after a while. */
static void race_spin(uint32_t *spins) {
    if (++*spins % 1000 == 0)
        sched_yield();
}

static void *race_ring(void *arg) {
    struct race *race = arg;
    for (uint32_t round = 1; !atomic_load(&race->stop); round++) {
        uint32_t spins = 0;
        while (atomic_load_explicit(&race->round, memory_order_acquire) < round &&
               !atomic_load_explicit(&race->stop, memory_order_relaxed))
            race_spin(&spins);
        atomic_store_explicit(&race->published, round, memory_order_release);
        rcmi_doorbell_ring(&race->doorbell, -1);
        atomic_store_explicit(&race->rung, round, memory_order_release);
    }
    return NULL;
}

static void test_race(void **state) {
    (void)state;
    struct race race;
    memset(&race, 0, sizeof race);
    pthread_t thread;
    uint32_t lost = 0, round = 0;
    assert_int_equal(pthread_create(&thread, NULL, race_ring, &race), 0);
    rcmi_deadline end = rcmi_deadline_in(RACE_MS);
    while (lost == 0 && round < RACES && !rcmi_deadline_passed(end)) {
        uint32_t spins = 0;
        round++;
        atomic_store_explicit(&race.round, round, memory_order_release);
        for (volatile uint32_t skew = round % 64; skew > 0; skew--) /* meets at all offsets */
            ;
        uint32_t seen = rcmi_doorbell_arm(&race.doorbell, RCMI_DOORBELL_FUTEX_ONE);
        bool came = atomic_load_explicit(&race.published, memory_order_acquire) == round;
        while (atomic_load_explicit(&race.rung, memory_order_acquire) < round)
            race_spin(&spins);
        if (!came && atomic_load(&race.doorbell.word) == seen)
            lost++;
        rcmi_doorbell_disarm(&race.doorbell, RCMI_DOORBELL_FUTEX_ONE);
    }
    atomic_store(&race.stop, true);
    pthread_join(thread, NULL);
    assert_true(round > 100);
    assert_int_equal(lost, 0);
}

/* ---- One doorbell without a ringer ----------------------------------------------------------- */

static void test_deadline(void **state) {
    (void)state;
    struct rcmi_doorbell doorbell;
    memset(&doorbell, 0, sizeof doorbell);
    uint32_t seen = rcmi_doorbell_arm(&doorbell, RCMI_DOORBELL_FUTEX_ONE);
    int64_t start = rcmi_now_ns();
    rcmi_deadline deadline = rcmi_deadline_in(50);
    while (!rcmi_deadline_passed(deadline))
        rcmi_doorbell_sleep(&doorbell, seen, deadline);
    int64_t took = rcmi_now_ns() - start;
    assert_true(took >= 50000000);
    assert_true(took < 5000000000);
    /* a passed deadline and timeout 0: both return at once */
    start = rcmi_now_ns();
    rcmi_doorbell_sleep(&doorbell, seen, start - 1);
    rcmi_doorbell_sleep(&doorbell, seen, 0);
    rcmi_doorbell_sleep(&doorbell, seen + 1, RCMI_NEVER); /* the word has changed */
    assert_true(rcmi_now_ns() - start < 5000000000);
    rcmi_doorbell_disarm(&doorbell, RCMI_DOORBELL_FUTEX_ONE);
    assert_int_equal(atomic_load(&doorbell.armed), 0);
}

/* Ringing has an effect only if a sleeper is armed, and wakes exactly that kind of sleeper. */
static void test_ring_armed_only(void **state) {
    (void)state;
    struct rcmi_doorbell doorbell;
    memset(&doorbell, 0, sizeof doorbell);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    uint64_t count = 0;
    assert_true(fd >= 0);

    rcmi_doorbell_ring(&doorbell, fd);
    assert_int_equal(atomic_load(&doorbell.word), 0);
    assert_int_equal(read(fd, &count, sizeof count), -1);

    uint32_t seen = rcmi_doorbell_arm(&doorbell, RCMI_DOORBELL_FUTEX_ONE);
    rcmi_doorbell_ring(&doorbell, fd);
    assert_int_not_equal(atomic_load(&doorbell.word), seen);
    assert_int_equal(read(fd, &count, sizeof count), -1);
    rcmi_doorbell_disarm(&doorbell, RCMI_DOORBELL_FUTEX_ONE);

    (void)rcmi_doorbell_arm(&doorbell, RCMI_DOORBELL_ENGINE);
    (void)rcmi_doorbell_arm(&doorbell, RCMI_DOORBELL_ENGINE); /* no effect the second time */
    errno = 0;
    rcmi_doorbell_ring(&doorbell, fd);
    rcmi_doorbell_ring(&doorbell, -1); /* an engine without an eventfd: no effect */
    assert_int_equal(errno, 0);
    assert_int_equal(read(fd, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
    rcmi_doorbell_disarm(&doorbell, RCMI_DOORBELL_ENGINE);

    (void)rcmi_doorbell_arm(&doorbell, RCMI_DOORBELL_POLLER);
    rcmi_doorbell_ring(&doorbell, fd); /* as from another process */
    assert_int_equal(read(fd, &count, sizeof count), -1);
    rcmi_doorbell_ring_all(&doorbell, -1, fd);
    assert_int_equal(read(fd, &count, sizeof count), sizeof count);
    rcmi_doorbell_disarm(&doorbell, RCMI_DOORBELL_POLLER);
    assert_int_equal(atomic_load(&doorbell.armed), 0);
    close(fd);
}

/* ---- Pauses --------------------------------------------------------------------------------- */

/* Creates a tree of files in which this process's control group has a CPU quota. */
static void quota_make(const char *tree, const char *cpu_max) {
    static const struct {
        const char *folder, *name, *text;
    } files[] = {{"/proc", NULL, NULL},
                 {"/proc/self", "cgroup", "0::/\n"},
                 {"/proc/self", "mountinfo", "30 1 0:26 / /g rw - cgroup2 cgroup2 rw\n"},
                 {"/g", "cpu.max", NULL}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", tree, files[i].folder);
        (void)mkdir(path, 0700);
        if (!files[i].name)
            continue;
        snprintf(path, sizeof path, "%s%s/%s", tree, files[i].folder, files[i].name);
        FILE *file = fopen(path, "we");
        if (!file || fputs(files[i].text ? files[i].text : cpu_max, file) < 0 || fclose(file) != 0)
            abort();
    }
}

/* The setting and the CPUs are read once per process, so each check runs in a forked child,
 * restricted to one CPU if `narrow`. The exit status is the result. */
static int pause_check(const char *spin_us, bool narrow, int (*question)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        for (int cpu = 0, kept = 0; narrow && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set) && kept++)
                CPU_CLR(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
        if (spin_us)
            setenv("RINGCOMM_SPIN_US", spin_us, 1);
        else
            unsetenv("RINGCOMM_SPIN_US");
        setenv("RINGCOMM_LOG", "error", 1);
        _exit(question());
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int check_roomy(void) {
    struct rcmi_pause pause = rcmi_pause_budget(1);
    return pause.spin_ns == 50000 && pause.yields > 0;
}

static int check_oversubscribed(void) {
    struct rcmi_pause pause = rcmi_pause_budget(2);
    return pause.spin_ns == 0 && pause.yields >= 20;
}

static int check_spins_more(void) {
    struct rcmi_pause pause = rcmi_pause_budget(2);
    int64_t start = rcmi_now_ns();
    uint32_t paused = 0;
    while (pause.spin_ns > 0 && rcmi_pause(&pause))
        paused++;
    int64_t took = rcmi_now_ns() - start;
    /* 20 ms are requested. The upper limit is wide, because other processes run meanwhile. */
    return paused > 1000 && took >= 20000000 && took < 2000000000;
}

/* A slow check, such as one of sockets, counts as part of the spin. began: as in struct
 * rcmi_pause. */
static int slow_looks(int64_t began) {
    enum { LOOK_NS = 100000 };
    struct rcmi_pause pause = rcmi_pause_budget(2);
    int looks = 0;
    pause.began = began;
    pause.slow = true;
    for (; pause.spin_ns > 0 && rcmi_pause(&pause); looks++)
        for (const int64_t end = rcmi_now_ns() + LOOK_NS; rcmi_now_ns() < end;)
            ;
    return looks;
}

static int check_slow_looks(void) {
    const int looks = slow_looks(0); /* 1 ms is 10 checks, or fewer if others use the CPU */
    return looks > 1 && looks <= 12;
}

/* The rest of a budget that another wait has begun to use, and of one that it has used up. */
static int check_began(void) {
    const int64_t now = rcmi_now_ns();
    return slow_looks(now - 700000) <= 5 && slow_looks(now - 2000000) == 1;
}

static int check_ends(void) {
    struct rcmi_pause pause = rcmi_pause_budget(1);
    while (rcmi_pause(&pause))
        ;
    return !rcmi_pause(&pause) && !rcmi_pause(&pause);
}

/* Longer by a microsecond or a yield per 4 KiB, up to a limit; with sockets per KiB. */
static int check_bytes(void) {
    const struct rcmi_pause roomy = rcmi_pause_budget(1), shared = rcmi_pause_budget(2);
    const size_t mib = (size_t)1 << 20;
    const struct rcmi_pause few = rcmi_pause_for_bytes(roomy, 1000, true),
                            one = rcmi_pause_for_bytes(roomy, mib, false),
                            socket = rcmi_pause_for_bytes(roomy, mib, true),
                            many = rcmi_pause_for_bytes(roomy, SIZE_MAX, false),
                            sockets = rcmi_pause_for_bytes(roomy, SIZE_MAX, true),
                            more = rcmi_pause_for_bytes(shared, mib, true),
                            most = rcmi_pause_for_bytes(shared, SIZE_MAX, false);
    return few.spin_ns == roomy.spin_ns && one.spin_ns == roomy.spin_ns + 256000 &&
           socket.spin_ns == roomy.spin_ns + 1024000 && one.yields == roomy.yields &&
           many.spin_ns == roomy.spin_ns + 1000000 && sockets.spin_ns == roomy.spin_ns + 2000000 &&
           more.spin_ns == 0 && more.yields == shared.yields + 256 &&
           most.yields == shared.yields + 4000;
}

static int check_bytes_set(void) {
    const struct rcmi_pause set = rcmi_pause_budget(1);
    const struct rcmi_pause many = rcmi_pause_for_bytes(set, SIZE_MAX, false);
    return many.spin_ns == set.spin_ns && many.yields == set.yields;
}

/* Budgets with no CPU, one and two CPUs for the process, whatever its affinity mask. */
static int check_half(void) {
    const struct rcmi_pause alone = rcmi_pause_budget(1);
    return alone.spin_ns == 0 && alone.yields > 0;
}

static int check_one(void) {
    const struct rcmi_pause alone = rcmi_pause_budget(1), shared = rcmi_pause_budget(2);
    return alone.spin_ns > 0 && shared.spin_ns == 0;
}

static void test_pause_quota(void **state) {
    char tree[] = "/tmp/ringcomm-wait-XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(tree));
    rcmi_cgroup_set_root(tree);
    assert_int_equal(pause_check(NULL, true, check_one), 1); /* no limit: one CPU in the mask */
    quota_make(tree, "50000 100000\n");
    assert_int_equal(pause_check(NULL, false, check_half), 1);
    quota_make(tree, "150000 100000\n");
    assert_int_equal(pause_check(NULL, false, check_one), 1);
    quota_make(tree, "100000 100000\n");
    assert_int_equal(pause_check(NULL, false, check_one), 1);
    quota_make(tree, "6400000 100000\n");
    assert_int_equal(pause_check(NULL, true, check_one), 1);
    rcmi_cgroup_set_root("");
    snprintf(command, sizeof command, "rm -r %s", tree);
    assert_int_equal(system(command), 0);
}

static void test_pause_budget(void **state) {
    (void)state;
    assert_int_equal(pause_check(NULL, true, check_bytes), 1);
    assert_int_equal(pause_check("20", true, check_bytes_set), 1);
    assert_int_equal(pause_check("0", true, check_bytes_set), 1);
    assert_int_equal(pause_check(NULL, true, check_roomy), 1);
    assert_int_equal(pause_check("", true, check_roomy), 1);
    assert_int_equal(pause_check("auto", true, check_roomy), 1);
    assert_int_equal(pause_check(NULL, true, check_oversubscribed), 1);
    assert_int_equal(pause_check(NULL, true, check_spins_more), 0);
    assert_int_equal(pause_check(NULL, true, check_ends), 1);
}

static void test_pause_setting(void **state) {
    (void)state;
    assert_int_equal(pause_check("20000", true, check_spins_more), 1);
    assert_int_equal(pause_check("1000", true, check_slow_looks), 1);
    assert_int_equal(pause_check("1000", true, check_began), 1);
    assert_int_equal(pause_check("0", true, check_roomy), 0);
    assert_int_equal(pause_check("nonsense", true, check_roomy), 1); /* auto, with a warning */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pause_budget),
        cmocka_unit_test(test_pause_quota),
        cmocka_unit_test(test_pause_setting),
        cmocka_unit_test(test_ring_armed_only),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_many_sleepers),
        cmocka_unit_test(test_race),
        cmocka_unit_test(test_threads_sleep),
        cmocka_unit_test(test_threads_pause),
        cmocka_unit_test(test_threads_engine),
        cmocka_unit_test(test_processes_sleep),
        cmocka_unit_test(test_processes_pause),
        cmocka_unit_test(test_processes_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
