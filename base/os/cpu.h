/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties of this CPU: its family, which selects protocol thresholds (transport/protocol.c), its
 * vector instructions, whether the string instruction copies faster, and which CPUs share its
 * last-level cache. Not here: which kernels need which instructions (kernels/), and which ranks
 * share a cache (transport/locality.h).
 */
#ifndef RCMI_CPU_H
#define RCMI_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name, description. */
#define RCMI_CPU_MAP(X)                                                                            \
    X(OTHER, "other CPUs")                                                                         \
    X(INTEL, "Intel")                                                                              \
    X(ZEN, "AMD before Zen 5")                                                                     \
    X(ZEN_5, "AMD Zen 5 or later")
enum rcmi_cpu {
#define RCMI_CPU_ENUM(name, text) RCMI_CPU_##name,
    RCMI_CPU_MAP(RCMI_CPU_ENUM)
#undef RCMI_CPU_ENUM
};

/* Any thread; looked up once. */
enum rcmi_cpu rcmi_cpu(void);
const char *rcmi_cpu_text(enum rcmi_cpu cpu);

/* The instructions of a kernel variant (kernels/meson.build) that the system allows programs to
 * use. Any thread. */
bool rcmi_cpu_has_avx2(void);
bool rcmi_cpu_has_avx512(void);
/* This is a virtual machine, or it is not known. CPUs of a guest may move between the host's. */
bool rcmi_cpu_is_virtual(void);

/* Is the string instruction the faster copy, from RCMI_STRING_MIN bytes on? RINGCOMM_COPY overrides
 * it. The instruction takes over written lines without reading them, and takes twice as long if
 * they were prefetched for writing. Any thread; looked up once. */
bool rcmi_cpu_copies_strings(void);
#define RCMI_STRING_MIN ((size_t)2048)

/* ---- Caches: cache.c */

#define RCMI_CPU_BYTES 128 /* a mask of 1024 CPUs */

/* The CPUs that share the last-level cache of the first CPU in `cpus`, from
 * /sys/devices/system/cpu; bit i of byte i / 8 is CPU i, in both masks. False, with an empty mask:
 * `cpus` is empty, or the system describes no cache. */
bool rcmi_cache_sharers(const uint8_t *cpus, size_t bytes, uint8_t *ret_sharers);

/* For tests: all paths begin with this prefix, which lives as long as it is used. "": the system's
 * own. */
void rcmi_cache_set_root(const char *prefix);

#endif
