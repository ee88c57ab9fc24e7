/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a host may be silent: the judgement of heartbeat.c, without clocks and sockets.
 *
 * Nothing comes from a host to which nothing is sent, so silence alone says little: a link is lost
 * if nothing was heard for the whole timeout, in which the host was probed PROBES_MIN times at
 * least, each time with an interval to answer. And a thread that looks late was away itself
 * (stopped, without a processor, or the whole machine was paused), perhaps with the host that
 * answers, if both are on one machine. Then the probes begin anew, or if only the last look is a
 * little late there is one more; but only once, or a machine that is always late would never lose a
 * host.
 */
#include "link.h"

#define PROBES_MIN 3
/* The kernel counts in ticks of up to 10 ms. */
#define SLACK_NS (25 * INT64_C(1000000))

int64_t rcmi_silence_interval(int64_t timeout) {
    return timeout / 5;
}

static bool is_answered(const struct rcmi_silence *silence, int64_t heard) {
    return silence->probes == 0 || heard + SLACK_NS >= silence->probed_at;
}

enum rcmi_silence_step rcmi_silence_look(struct rcmi_silence *silence, int64_t now, int64_t heard,
                                         int64_t timeout) {
    const int64_t interval = rcmi_silence_interval(timeout), end = heard + timeout;
    const int64_t late = now - silence->look_at;
    enum rcmi_silence_step step = RCMI_SILENCE_PROBE;
    if (late < (silence->probes > PROBES_MIN ? 0 : -interval / 8))
        return RCMI_SILENCE_WAIT; /* it looks after another link */
    if (is_answered(silence, heard)) {
        step = now - heard < interval ? RCMI_SILENCE_WAIT : RCMI_SILENCE_PROBE;
        *silence = (struct rcmi_silence){.probed_at = now};
    } else if (!silence->excused && late > interval / 2) {
        *silence = (struct rcmi_silence){.probed_at = now, .excused = true};
    } else if (silence->probes >= PROBES_MIN && now >= end) {
        step = silence->excused || late <= SLACK_NS ? RCMI_SILENCE_LOST : RCMI_SILENCE_PROBE;
        silence->excused = true;
    }
    silence->probes += step == RCMI_SILENCE_PROBE;
    silence->look_at = now + interval;
    if (silence->probes > PROBES_MIN && end > now && end < silence->look_at)
        silence->look_at = end;
    return step;
}
