/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a host may be silent: the judgement of heartbeat.c, without clocks and sockets.
 *
 * Nothing comes from a host that nobody asks, so silence alone says little: a link is lost if
 * nothing was heard for the whole timeout, in which the host was asked ASKED_MIN times at least,
 * each time with an interval to answer. And who looks late was away itself (stopped, without a
 * processor, or the whole machine was paused), perhaps with the one that answers, if both are on
 * one machine. Then the questions are put anew, or if only the last look is a little late there is
 * one more; but only once, or a machine that is always late would never lose anybody.
 */
#include "internal.h"

#define ASKED_MIN 3
/* The kernel counts in ticks of up to 10 ms. */
#define SLACK_NS (25 * INT64_C(1000000))

int64_t rcmi_silence_interval(int64_t timeout) {
    return timeout / 5;
}

static bool is_answered(const struct rcmi_silence *silence, int64_t heard) {
    return silence->asked == 0 || heard + SLACK_NS >= silence->asked_at;
}

enum rcmi_silence_step rcmi_silence_look(struct rcmi_silence *silence, int64_t now, int64_t heard,
                                         int64_t timeout) {
    const int64_t interval = rcmi_silence_interval(timeout), end = heard + timeout;
    const int64_t late = now - silence->look_at;
    enum rcmi_silence_step step = RCMI_SILENCE_ASK;
    if (late < (silence->asked > ASKED_MIN ? 0 : -interval / 8))
        return RCMI_SILENCE_WAIT; /* it looks after another link */
    if (is_answered(silence, heard)) {
        step = now - heard < interval ? RCMI_SILENCE_WAIT : RCMI_SILENCE_ASK;
        *silence = (struct rcmi_silence){.asked_at = now};
    } else if (!silence->excused && late > interval / 2) {
        *silence = (struct rcmi_silence){.asked_at = now, .excused = true};
    } else if (silence->asked >= ASKED_MIN && now >= end) {
        step = silence->excused || late <= SLACK_NS ? RCMI_SILENCE_LOST : RCMI_SILENCE_ASK;
        silence->excused = true;
    }
    silence->asked += step == RCMI_SILENCE_ASK;
    silence->look_at = now + interval;
    if (silence->asked > ASKED_MIN && end > now && end < silence->look_at)
        silence->look_at = end;
    return step;
}
