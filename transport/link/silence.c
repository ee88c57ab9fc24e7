/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a host may be silent: the decision of heartbeat.c, without clocks and sockets.
 *
 * A host that receives nothing sends nothing, so silence alone proves little. A link is lost if
 * nothing arrived for the whole timeout. In that time at least PROBES_MIN probes must have been
 * sent, each with an interval to answer.
 *
 * A late call means that this thread itself did not run (stopped, no processor, machine paused). A
 * peer on the same machine may not have run either. Then the probes start over; if only the last
 * call is slightly late, one more probe is sent. This is tolerated once, so that a machine that is
 * always late still detects a dead host.
 */
#include "link.h"

#define PROBES_MIN 3
/* The kernel's timestamps have a granularity of up to 10 ms. */
#define SLACK_NS (25 * INT64_C(1000000))

int64_t rcmi_silence_interval(int64_t timeout) {
    return timeout / 5;
}

static bool is_answered(const struct rcmi_silence *silence, int64_t received) {
    return silence->probes == 0 || received + SLACK_NS >= silence->probed_at;
}

enum rcmi_silence_step rcmi_silence_look(struct rcmi_silence *silence, int64_t now,
                                         int64_t received, int64_t timeout) {
    const int64_t interval = rcmi_silence_interval(timeout), end = received + timeout;
    const int64_t late = now - silence->look_at;
    enum rcmi_silence_step step = RCMI_SILENCE_PROBE;
    if (late < (silence->probes > PROBES_MIN ? 0 : -interval / 8))
        return RCMI_SILENCE_WAIT; /* called early, for another link */
    if (is_answered(silence, received)) {
        step = now - received < interval ? RCMI_SILENCE_WAIT : RCMI_SILENCE_PROBE;
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
