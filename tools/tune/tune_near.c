/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-tune: measures whether slots are faster if all ranks of this host count as near
 * (RINGCOMM_NEAR=1, temporal stores) or as far. Rounds of both alternate, because the CPUs of a
 * virtual machine move between caches. See tune.h.
 */
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "locality.h"
#include "settings.h"
#include "tuning.h"

#define ROUNDS       5
#define QUICK_ROUNDS 3
#define GAIN         1.05 /* a wrong "near" costs more than a wrong "far" */

/* Why near and far need no measurement; NULL: they do. */
static const char *near_known(const struct tune_options *o, const struct rcmi_range *slots) {
    uint8_t cpus[RCMI_CPU_BYTES];
    const struct rcmi_locality_facts facts = {
        .setting = "auto", .is_virtual = rcmi_cpu_is_virtual(), .cpus = cpus};
    struct rcmi_locality locality;
    tool_cpu_mask(cpus, sizeof(cpus));
    if (o->report)
        return "--report measures the constants in use";
    if (strcmp(rcmi_setting("RINGCOMM_NEAR"), "auto") != 0)
        return "RINGCOMM_NEAR is set";
    if (!o->shm)
        return "--transport is without shm";
    if (slots->from > slots->to)
        return "slots are written by temporal stores either way (slot_non_temporal=never)";
    if (rcmi_locality_find(&facts, &locality) != RCM_OK)
        return rcm_last_error();
    if (locality.source != RCMI_LOCALITY_GUEST && locality.source != RCMI_LOCALITY_NO_CACHES)
        return "the system describes which CPUs share a cache";
    return NULL;
}

/* The sum of the logarithms of the points' times. false: an error was printed. *ret_n: the number
 * of points that were measured. */
static bool round_measure(const struct tune_options *o, const char *near,
                          struct tune_points *points, double *ret_logs, size_t *ret_n) {
    for (size_t i = 0; i < points->n; i++)
        points->all[i].us = 0;
    setenv("RINGCOMM_NEAR", near, 1);
    const bool ok = tune_measure(o, points);
    unsetenv("RINGCOMM_NEAR");
    *ret_logs = 0;
    *ret_n = 0;
    for (size_t i = 0; ok && i < points->n; i++)
        if (points->all[i].us > 0) {
            *ret_logs += log(points->all[i].us);
            ++*ret_n;
        }
    return ok;
}

static bool rounds_measure(const struct tune_options *o, struct tune_points *points,
                           struct tune_near *near) {
    double gains = 0;
    for (int round = 0; round < (o->quick ? QUICK_ROUNDS : ROUNDS); round++) {
        double near_logs, far_logs;
        size_t nears, fars;
        if (!round_measure(o, "1", points, &near_logs, &nears) ||
            !round_measure(o, "0", points, &far_logs, &fars))
            return false;
        if (nears < points->n || fars < points->n) /* no time is left */
            break;
        gains += (far_logs - near_logs) / (double)points->n;
        near->rounds++;
    }
    near->gain = near->rounds > 0 ? exp(gains / near->rounds) : 1;
    near->near = near->gain > GAIN;
    if (near->rounds == 0)
        near->unmeasured = "no time was left";
    return true;
}

bool tune_near_measure(const struct tune_options *o, const struct rcmi_tuning *tuning,
                       struct tune_near *ret_near) {
    struct tune_points points;
    *ret_near = (struct tune_near){.rounds = 0};
    if (!tune_near_points_make(o, &points))
        return false;
    const struct rcmi_protocol *protocol = &tuning->protocols.of[points.all[0].sharing];
    ret_near->unmeasured = near_known(o, &protocol->slot_non_temporal);
    const bool ok = ret_near->unmeasured || rounds_measure(o, &points, ret_near);
    tune_points_free(&points);
    return ok;
}

void tune_near_show(const struct tune_near *near) {
    if (near->unmeasured)
        printf("# near: not measured: %s\n", near->unmeasured);
    else
        printf("# near: %d rounds, near=1 is %.2f times as fast as near=0\n", near->rounds,
               near->gain);
}

void tune_near_write(FILE *file, const struct tune_near *near) {
    if (!near->unmeasured)
        fprintf(file, "%-32s = %-10d # %s; near=1 was %.2f times as fast as near=0\n", "near",
                near->near, RCMI_TUNING_NEAR_HELP, near->gain);
}
