/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locality: which CPUs are near a rank, and why. Near CPUs share one last-level cache with all CPUs
 * of the rank. Slots that only near ranks read are written by temporal stores, as the data stay in
 * that cache (protocol.h).
 *
 * A setting decides first, then rank 0's tuning file, then the caches that the system describes. No
 * CPU of a virtual machine is near: it moves between caches that the machine does not show. A wrong
 * "near" costs a factor of 3, a wrong "far" a factor of 2.
 */
#ifndef RCMI_LOCALITY_H
#define RCMI_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>
#include "cpu.h"
#include "ringcomm.h"

/* Name, text: what decides. */
#define RCMI_LOCALITY_MAP(X)                                                                       \
    X(SETTING, "set by RINGCOMM_NEAR")                                                             \
    X(TUNING, "set by rank 0's tuning file")                                                       \
    X(GUEST, "a virtual machine does not show which cache a CPU uses")                             \
    X(NO_CACHES, "the system describes no caches")                                                 \
    X(SEVERAL_CACHES, "this rank's CPUs use several last-level caches")                            \
    X(CACHE, "by the last-level cache of their CPUs")
enum rcmi_locality_source {
#define RCMI_LOCALITY_ENUM(name, text) RCMI_LOCALITY_##name,
    RCMI_LOCALITY_MAP(RCMI_LOCALITY_ENUM)
#undef RCMI_LOCALITY_ENUM
        RCMI_LOCALITY_SOURCES
};

/* What a setting can select: by caches, no rank, all ranks of the host. */
enum rcmi_near_choice { RCMI_NEAR_AUTO, RCMI_NEAR_NONE, RCMI_NEAR_ALL };
/* Parses "auto", "0" or "1". */
bool rcmi_near_choice_read(const char *text, size_t len, enum rcmi_near_choice *ret_choice);
const char *rcmi_near_choice_text(enum rcmi_near_choice choice);

/* Facts about a rank. */
struct rcmi_locality_facts {
    const char *setting;         /* RINGCOMM_NEAR */
    enum rcmi_near_choice tuned; /* of the tuning file */
    bool is_virtual;             /* rcmi_cpu_is_virtual */
    const uint8_t *cpus;         /* RCMI_CPU_BYTES: those that it may use */
};

struct rcmi_locality {
    enum rcmi_locality_source source;
    bool near_all;                   /* all ranks of the host are near; only by a setting */
    uint8_t sharers[RCMI_CPU_BYTES]; /* CACHE: the CPUs that share the cache; else empty */
    int cache_cpu;                   /* CACHE: the first of them; else -1 */
};

/* RCM_ERR_CONFIG: the setting is neither auto, 0 nor 1. */
rcm_status rcmi_locality_find(const struct rcmi_locality_facts *facts,
                              struct rcmi_locality *ret_locality);
/* Whether a rank of this host that may use `cpus` is near. */
bool rcmi_locality_is_near(const struct rcmi_locality *locality, const uint8_t *cpus);
/* A sentence part; "unknown" for a number that is no source. */
const char *rcmi_locality_text(enum rcmi_locality_source source);

#endif
