/* SPDX-License-Identifier: BSD-3-Clause */
/* When a host that says nothing is lost (transport/link/silence.c): a host and a clock are played,
 * with answers that are late or never come, and with times in which nobody runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "../../transport/link/link.h"

#define MS      INT64_C(1000000)
#define TIMEOUT (2000 * MS)
#define STEP    MS
#define NEVER   (INT64_C(1) << 60)

/* A play of one link. */
struct play {
    int64_t delay;        /* of an answer */
    int64_t dies;         /* from then on there is none */
    int64_t pause, until; /* in between neither side runs */
    int64_t lateness;     /* of each look */
    int64_t others;       /* so often looks are early, for the sake of other links; 0: never */

    int64_t heard;   /* the last answer */
    int64_t answers; /* when the next one comes; NEVER: nobody has asked */
    int asked;       /* since the last answer */
    int questions;   /* in all */
};

static bool play_pauses(const struct play *play, int64_t now) {
    return now >= play->pause && now < play->until;
}

static void play_host(struct play *play, int64_t now) {
    if (play->answers > now || now >= play->dies)
        return;
    play->heard = now - now % (10 * MS); /* ticks of the kernel */
    play->answers = NEVER;
    play->asked = 0;
}

static void play_ask(struct play *play, int64_t now) {
    play->asked++;
    play->questions++;
    if (play->answers == NEVER)
        play->answers = now + play->delay;
}

/* When the link is lost; NEVER: not within `length`. The lookers are first at every instant. */
static int64_t play_link(struct play *play, int64_t length) {
    struct rcmi_silence silence = {0};
    play->answers = NEVER;
    for (int64_t now = 0; now < length; now += STEP) {
        const bool early = play->others && now % play->others == 0;
        if (play_pauses(play, now))
            continue;
        if (early || now >= silence.look_at + play->lateness) {
            const enum rcmi_silence_step step =
                rcmi_silence_look(&silence, now, play->heard, TIMEOUT);
            if (step == RCMI_SILENCE_LOST)
                return now;
            if (step == RCMI_SILENCE_PROBE)
                play_ask(play, now);
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

/* Who has answered is left alone for two looks. */
static void test_few_questions(void **state) {
    (void)state;
    for (int64_t delay = 15 * MS; delay < 300 * MS; delay += 97 * MS) {
        struct play play = {.delay = delay, .dies = NEVER};
        assert_int_equal(play_link(&play, 100 * TIMEOUT), NEVER);
        assert_in_range(play.questions, 248, 252);
    }
}

/* It is lost at the end of the timeout, and has been asked several times. */
static void test_dies(void **state) {
    (void)state;
    for (int64_t dies = 0; dies < 2 * TIMEOUT; dies += 37 * MS) {
        struct play play = {.delay = 40 * MS, .dies = dies};
        const int64_t lost = play_link(&play, 10 * TIMEOUT);
        assert_in_range(lost - play.heard, TIMEOUT, TIMEOUT + STEP);
        assert_in_range(play.asked, 3, 5);
    }
}

/* All stand still, at any moment, also between a question and its answer. */
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

/* A host that is gone after the pause is lost all the same. */
static void test_pause_and_dies(void **state) {
    (void)state;
    for (int64_t pause = TIMEOUT; pause < 2 * TIMEOUT; pause += 7 * MS) {
        struct play play = {
            .delay = 40 * MS, .dies = pause, .pause = pause, .until = pause + 3 * TIMEOUT};
        assert_in_range(play_link(&play, 8 * TIMEOUT) - play.until, TIMEOUT / 2, TIMEOUT);
    }
}

/* Who is always late loses a host all the same. */
static void test_always_late(void **state) {
    (void)state;
    for (int64_t lateness = 0; lateness < TIMEOUT; lateness += 50 * MS) {
        struct play play = {.delay = 40 * MS, .dies = 2 * TIMEOUT, .lateness = lateness};
        const int64_t lost = play_link(&play, 30 * TIMEOUT);
        assert_in_range(lost - play.heard, TIMEOUT, 2 * TIMEOUT + 6 * lateness);
    }
}

/* Looks for the sake of other links are no questions. */
static void test_others(void **state) {
    (void)state;
    struct play play = {.delay = 900 * MS, .dies = NEVER, .others = 10 * MS};
    assert_int_equal(play_link(&play, 100 * TIMEOUT), NEVER);
    play = (struct play){.delay = 40 * MS, .dies = TIMEOUT, .others = 10 * MS};
    assert_in_range(play_link(&play, 10 * TIMEOUT) - play.heard, TIMEOUT, TIMEOUT + STEP);
    assert_in_range(play.asked, 3, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),        cmocka_unit_test(test_few_questions),
        cmocka_unit_test(test_dies),           cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_and_dies), cmocka_unit_test(test_always_late),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
