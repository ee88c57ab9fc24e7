/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a step in the executor, on one core, measured with long plans of the smallest steps.
 * Copies of 8 bytes measure the executor alone. Sends and receives are between two ranks of this
 * process over shared memory, run alternately by one thread; they measure executor and transport
 * without the latency between cores.
 */
#include "floor.h"

#include <string.h>
#include "clock.h"
#include "exec.h"
#include "plan.h"

#define STEP_COUNT   1000
#define STEP_REPEATS 50
#define STEP_EPOCH   1

struct step_rank {
    struct rcmi_node *node;
    struct rcmi_exec *exec;
    struct rcmi_plan *plan;
    struct rcmi_run *run;
    float in[2], out[2];
    bool done;
};

struct step_setup {
    struct floor *floor;
    struct step_rank ranks[2];
    int nranks;
    uint32_t sequence;
    struct floor_address addresses[2];
};

static const int step_hosts[2] = {0, 0};
static const int step_world[2] = {0, 1};
static const struct rcmi_shape step_shapes[3] = {
    [1] = {.nranks = 1, .nhosts = 1, .host_of = step_hosts},
    [2] = {.nranks = 2, .nhosts = 1, .host_of = step_hosts},
};

enum step_kind { STEP_COPIES, STEP_MESSAGES, STEP_SIGNALS };

/* ---- plans ----------------------------------------------------------------------------------- */

static void plan_step(struct rcmi_builder *b, enum step_kind kind, int rank) {
    switch (kind) {
    case STEP_COPIES:
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
        break;
    case STEP_MESSAGES:
        if (rank == 0)
            rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, 1, 0));
        else
            rcmi_recv(b, 0, 0, rcmi_from(b, 0, 0, 0), rcmi_out(0));
        break;
    case STEP_SIGNALS:
        if (rank == 0)
            rcmi_signal(b, 0, rcmi_to(b, 0, 1, 0));
        else
            rcmi_wait(b, 0, rcmi_from(b, 0, 0, 0));
        break;
    }
}

static bool plan_make(struct step_setup *setup, enum step_kind kind, int nsteps) {
    for (int rank = 0; rank < setup->nranks; rank++) {
        struct rcmi_builder *b;
        if (rcmi_plan_begin("floor", RCM_BROADCAST, &step_shapes[setup->nranks], rank, 0, 1, 1,
                            &b) != RCM_OK)
            return floor_failed("a plan");
        for (int i = 0; i < nsteps; i++)
            plan_step(b, kind, rank);
        if (rcmi_plan_finish(b, &setup->ranks[rank].plan) != RCM_OK)
            return floor_failed("a plan");
    }
    return true;
}

static void plan_drop(struct step_setup *setup) {
    for (int rank = 0; rank < setup->nranks; rank++) {
        rcmi_plan_free(setup->ranks[rank].plan);
        setup->ranks[rank].plan = NULL;
    }
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool setup_open(struct step_setup *setup) {
    for (int i = 0; i < setup->nranks; i++) {
        struct step_rank *rank = &setup->ranks[i];
        struct rcmi_exec_config config = {
            .epoch = STEP_EPOCH,
            .shape = &step_shapes[setup->nranks],
            .world_rank = step_world,
            .rank = i,
        };
        if (!floor_node_open(i, setup->nranks, setup->nranks > 1 ? "shm" : "auto", setup->addresses,
                             &rank->node))
            return false;
        config.node = rank->node;
        if (!floor_slots(&config.slot_bytes, &config.slots))
            return false;
        if (rcmi_exec_create(&config, &rank->exec) != RCM_OK)
            return floor_failed("an executor");
        rank->in[0] = 1;
        rank->in[1] = 2;
    }
    return true;
}

static void setup_close(struct step_setup *setup) {
    plan_drop(setup);
    for (int i = 0; i < setup->nranks; i++)
        if (setup->ranks[i].exec)
            rcmi_exec_free(setup->ranks[i].exec);
    for (int i = 0; i < setup->nranks; i++)
        rcmi_node_destroy(setup->ranks[i].node);
}

/* Opens the connections that the plans need. */
static bool setup_prepare(struct step_setup *setup) {
    for (bool ready = false; !ready;) {
        ready = true;
        for (int i = 0; i < setup->nranks; i++) {
            int peer;
            const rcm_status status = rcmi_exec_prepare(setup->ranks[i].exec, setup->ranks[i].plan,
                                                        RCMI_MEM_HOST, 8, &peer);
            if (status != RCM_OK && status != RCM_AGAIN)
                return floor_failed("connecting two ranks");
            ready = ready && status == RCM_OK;
            rcmi_node_progress(setup->ranks[i].node);
        }
        if (rcmi_now_ns() >= setup->floor->deadline_ns)
            return floor_failed("connecting two ranks: the --timeout has passed");
        sched_yield();
    }
    return true;
}

/* ---- one run --------------------------------------------------------------------------------- */

static bool runs_start(struct step_setup *setup) {
    setup->sequence++;
    for (int i = 0; i < setup->nranks; i++) {
        struct step_rank *rank = &setup->ranks[i];
        const struct rcmi_bind bind = {
            .plan = rank->plan,
            .collective = rank->plan->collective,
            .in = rcmi_mem_host(rank->in, 2 * sizeof(float)),
            .out = rcmi_mem_host(rank->out, 2 * sizeof(float)),
            .count = 2,
            .dtype = RCM_FLOAT32,
            .op = RCM_SUM,
            .meta = setup->sequence,
        };
        rank->done = false;
        if (rcmi_run_start(rank->exec, &bind, &rank->run) != RCM_OK)
            return floor_failed("binding a plan");
    }
    return true;
}

/* Runs each rank in turn as far as it can. */
static bool runs_progress(struct step_setup *setup) {
    for (bool done = false; !done;) {
        bool moved = false;
        done = true;
        for (int i = 0; i < setup->nranks; i++) {
            struct step_rank *rank = &setup->ranks[i];
            if (rank->done)
                continue;
            const rcm_status status = rcmi_run_progress(rank->run, &moved);
            if (status != RCM_OK && status != RCM_AGAIN)
                return floor_failed("a run");
            rank->done = status == RCM_OK;
            done = done && rank->done;
        }
        if (!moved && !done && rcmi_now_ns() >= setup->floor->deadline_ns)
            return floor_failed("a run: the --timeout has passed");
    }
    return true;
}

struct step_times {
    double bind, execute; /* ns of a whole run */
};

static bool runs_time(struct step_setup *setup, struct step_times *ret_times) {
    const int64_t begin = rcmi_now_ns();
    if (!runs_start(setup))
        return false;
    const int64_t bound = rcmi_now_ns();
    if (!runs_progress(setup))
        return false;
    const int64_t done = rcmi_now_ns();
    for (int i = 0; i < setup->nranks; i++)
        rcmi_run_end(setup->ranks[i].run);
    const int64_t ended = rcmi_now_ns();
    *ret_times = (struct step_times){.bind = (double)(bound - begin + ended - done),
                                     .execute = (double)(done - bound)};
    return true;
}

/* ---- figures --------------------------------------------------------------------------------- */

struct step_figures {
    struct floor_series bind, execute, whole;
};

/* Adds one value to each series: the median over STEP_REPEATS runs. */
static bool step_round(struct step_setup *setup, double steps, struct step_figures *figures) {
    static struct floor_series bind, execute;
    bind.n = execute.n = 0;
    for (int i = 0; i < STEP_REPEATS; i++) {
        struct step_times times;
        if (!runs_time(setup, &times))
            return false;
        floor_add(&bind, times.bind / steps);
        floor_add(&execute, times.execute / steps);
    }
    floor_add(&figures->bind, floor_median(&bind));
    floor_add(&figures->execute, floor_median(&execute));
    floor_add(&figures->whole, (figures->bind.values[figures->bind.n - 1] +
                                figures->execute.values[figures->execute.n - 1]));
    return true;
}

static bool step_measure(struct step_setup *setup, enum step_kind kind, int nsteps,
                         struct step_figures *figures) {
    figures->bind.n = figures->execute.n = figures->whole.n = 0;
    const uint64_t before = rcmi_exec_steps(setup->ranks[0].exec);
    bool ok = plan_make(setup, kind, nsteps) && setup_prepare(setup);
    for (int round = -1; ok && round < setup->floor->rounds; round++) {
        ok = step_round(setup, nsteps * setup->nranks, figures);
        if (round < 0)
            figures->bind.n = figures->execute.n = figures->whole.n = 0;
    }
    plan_drop(setup);
    const uint64_t done = rcmi_exec_steps(setup->ranks[0].exec) - before;
    const uint64_t expected =
        (uint64_t)nsteps * STEP_REPEATS * (uint64_t)(setup->floor->rounds + 1);
    if (ok && done != expected)
        return floor_failed("the executor ran a different number of steps than the plan has");
    return ok;
}

static bool step_copies(struct floor *f, struct step_setup *setup) {
    static struct step_figures figures;
    if (!step_measure(setup, STEP_COPIES, STEP_COUNT, &figures))
        return false;
    floor_row(f, "executor step", "copy, executing", 1, 8, "ns", &figures.execute);
    floor_row(f, "executor step", "copy, binding", 1, 8, "ns", &figures.bind);
    if (!step_measure(setup, STEP_COPIES, 1, &figures))
        return false;
    floor_row(f, "executor run", "of one copy, begin to end", 1, 8, "ns", &figures.whole);
    return true;
}

static bool step_messages(struct floor *f, struct step_setup *setup) {
    static struct step_figures figures;
    if (!step_measure(setup, STEP_MESSAGES, STEP_COUNT, &figures))
        return false;
    floor_row(f, "executor step", "send or recv, executing", 1, 8, "ns", &figures.execute);
    floor_row(f, "executor step", "send or recv, binding", 1, 8, "ns", &figures.bind);
    if (!step_measure(setup, STEP_SIGNALS, STEP_COUNT, &figures))
        return false;
    floor_row(f, "executor step", "signal or wait, executing", 1, 0, "ns", &figures.execute);
    return true;
}

bool floor_step(struct floor *f) {
    static struct step_setup alone, two;
    alone = (struct step_setup){.floor = f, .nranks = 1};
    bool ok = setup_open(&alone) && step_copies(f, &alone);
    setup_close(&alone);
    if (!ok)
        return false;
    two = (struct step_setup){.floor = f, .nranks = 2};
    ok = setup_open(&two) && step_messages(f, &two);
    setup_close(&two);
    return ok;
}
