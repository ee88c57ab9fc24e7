/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Properties of this CPU: its family, which selects protocol thresholds (transport/protocol.c), its
 * vector instructions, and whether the string instruction copies faster. Not here: which kernels
 * need which instructions (kernels/).
 */
#ifndef RCMI_CPU_H
#define RCMI_CPU_H

#include <stdbool.h>
#include <stddef.h>

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

/* Is the string instruction the faster copy, from RCMI_STRING_MIN bytes on? RINGCOMM_COPY overrides
 * it. The instruction takes over written lines without reading them, and takes twice as long if
 * they were prefetched for writing. Any thread; looked up once. */
bool rcmi_cpu_copies_strings(void);
#define RCMI_STRING_MIN ((size_t)2048)

#endif
