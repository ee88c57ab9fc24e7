/* SPDX-License-Identifier: BSD-3-Clause */
/* When a silent host counts as lost (transport/link/silence.c): a simulated host and clock, with
 * answers that are late or never come, and with times in which no process runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "../../transport/link/link.h"

#define MS      INT64_C(1000000)
#define TIMEOUT (2000 * MS)
#define STEP    MS
#define NEVER   (INT64_C(1) << 60)

/* The simulation of one link. */
struct play {
    int64_t delay;        /* of an answer */
    int64_t dies;         /* no answers from then on */
    int64_t pause, until; /* neither side runs in between */
    int64_t lateness;     /* of each check */
    int64_t others;       /* interval of early checks, made for other links; 0: none */

    int64_t last_answer; /* time of the last answer */
    int64_t answers;     /* time of the next answer; NEVER: no probe is open */
    int probes;          /* probes since the last answer */
    int total_probes;    /* probes in total */
};

static bool play_pauses(const struct play *play, int64_t now) {
    return now >= play->pause && now < play->until;
}

static void play_host(struct play *play, int64_t now) {
    if (play->answers > now || now >= play->dies)
        return;
    play->last_answer = now - now % (10 * MS); /* the kernel's clock ticks */
    play->answers = NEVER;
    play->probes = 0;
}

static void play_probe(struct play *play, int64_t now) {
    play->probes++;
    play->total_probes++;
    if (play->answers == NEVER)
        play->answers = now + play->delay;
}

/* Returns when the link is lost; NEVER: not within `length`. At each instant the check comes before
 * the answer. */
static int64_t play_link(struct play *play, int64_t length) {
    struct rcmi_silence silence = {0};
    play->answers = NEVER;
    for (int64_t now = 0; now < length; now += STEP) {
        const bool early = play->others && now % play->others == 0;
        if (play_pauses(play, now))
            continue;
        if (early || now >= silence.look_at + play->lateness) {
            const enum rcmi_silence_step step =
                rcmi_silence_look(&silence, now, play->last_answer, TIMEOUT);
            if (step == RCMI_SILENCE_LOST)
                return now;
            if (step == RCMI_SILENCE_PROBE)
                play_probe(play, now);
            assert_true(silence.look_at > now);
        }
        play_host(play, now);
    }
    return NEVER;
}

static void test_answers(void **state) {
    (void)state;
    for (int64_t delay = 0; delay < 3 * TIMEOUT / 5; delay += 97 * MS) {
        struct play play = {.delay = delay, .dies = NEVER};
        assert_int_equal(play_link(&play, 100 * TIMEOUT), NEVER);
    }
}

/* A host that has answered is not probed at the next two checks. */
static void test_few_probes(void **state) {
    (void)state;
    for (int64_t delay = 15 * MS; delay < 300 * MS; delay += 97 * MS) {
        struct play play = {.delay = delay, .dies = NEVER};
        assert_int_equal(play_link(&play, 100 * TIMEOUT), NEVER);
        assert_in_range(play.total_probes, 248, 252);
    }
}

/* It is lost at the end of the timeout, after several probes. */
static void test_dies(void **state) {
    (void)state;
    for (int64_t dies = 0; dies < 2 * TIMEOUT; dies += 37 * MS) {
        struct play play = {.delay = 40 * MS, .dies = dies};
        const int64_t lost = play_link(&play, 10 * TIMEOUT);
        assert_in_range(lost - play.last_answer, TIMEOUT, TIMEOUT + STEP);
        assert_in_range(play.probes, 3, 5);
    }
}

/* Both sides stand still at any moment, also between a probe and its answer. */
static void test_pause(void **state) {
    (void)state;
    for (int64_t delay = 40 * MS; delay <= 1000 * MS; delay += 160 * MS)
        for (int64_t pause = TIMEOUT; pause < 2 * TIMEOUT; pause += 29 * MS)
            for (int64_t length = 50 * MS; length < 3 * TIMEOUT; length += 101 * MS) {
                struct play play = {
                    .delay = delay, .dies = NEVER, .pause = pause, .until = pause + length};
                assert_int_equal(play_link(&play, 8 * TIMEOUT), NEVER);
            }
}

/* A host that is gone after the pause is lost, too. */
static void test_pause_and_dies(void **state) {
    (void)state;
    for (int64_t pause = TIMEOUT; pause < 2 * TIMEOUT; pause += 7 * MS) {
        struct play play = {
            .delay = 40 * MS, .dies = pause, .pause = pause, .until = pause + 3 * TIMEOUT};
        assert_in_range(play_link(&play, 8 * TIMEOUT) - play.until, TIMEOUT / 2, TIMEOUT);
    }
}

/* A thread whose checks are always late still finds a lost host. */
static void test_always_late(void **state) {
    (void)state;
    for (int64_t lateness = 0; lateness < TIMEOUT; lateness += 50 * MS) {
        struct play play = {.delay = 40 * MS, .dies = 2 * TIMEOUT, .lateness = lateness};
        const int64_t lost = play_link(&play, 30 * TIMEOUT);
        assert_in_range(lost - play.last_answer, TIMEOUT, 2 * TIMEOUT + 6 * lateness);
    }
}

/* Checks made for other links send no probes. */
static void test_others(void **state) {
    (void)state;
    struct play play = {.delay = 900 * MS, .dies = NEVER, .others = 10 * MS};
    assert_int_equal(play_link(&play, 100 * TIMEOUT), NEVER);
    play = (struct play){.delay = 40 * MS, .dies = TIMEOUT, .others = 10 * MS};
    assert_in_range(play_link(&play, 10 * TIMEOUT) - play.last_answer, TIMEOUT, TIMEOUT + STEP);
    assert_in_range(play.probes, 3, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),        cmocka_unit_test(test_few_probes),
        cmocka_unit_test(test_dies),           cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_and_dies), cmocka_unit_test(test_always_late),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
