/* SPDX-License-Identifier: BSD-3-Clause */
/* See cpu.h. */
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include "log.h"
#include "settings.h"

#if defined(__x86_64__)
#define ZEN_5          0x1a
#define FSRM_BIT       (1u << 4) /* leaf 7, edx: fast short "rep movsb" */
#define FAMILY_OF(eax) (((eax) >> 8 & 0xf) + ((eax) >> 20 & 0xff))

static enum rcmi_cpu cpu_find(void) {
    unsigned eax, b, c, d;
    if (__builtin_cpu_is("intel"))
        return RCMI_CPU_INTEL;
    if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &eax, &b, &c, &d))
        return RCMI_CPU_OTHER;
    return FAMILY_OF(eax) >= ZEN_5 ? RCMI_CPU_ZEN_5 : RCMI_CPU_ZEN;
}

/* AMD's Zen 5 writes lines that another core has read twice as fast by "rep movsb"; from Zen 3 on
 * it may be very slow there (glibc's bug 30994), and Intel's cores copy both ways alike. */
static bool strings_are_better(void) {
    unsigned a, b, c, d;
    return rcmi_cpu() == RCMI_CPU_ZEN_5 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & FSRM_BIT) != 0;
}
#else
static enum rcmi_cpu cpu_find(void) {
    return RCMI_CPU_OTHER;
}

static bool strings_are_better(void) {
    return false;
}
#endif

enum rcmi_cpu rcmi_cpu(void) {
    static _Atomic int known = -1;
    /* The first threads to look find the same, so relaxed has no partner. */
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now < 0) {
        now = (int)cpu_find();
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return (enum rcmi_cpu)now;
}

const char *rcmi_cpu_text(enum rcmi_cpu cpu) {
    static const char *const texts[] = {
#define CPU_TEXT(name, text) text,
        RCMI_CPU_MAP(CPU_TEXT)
#undef CPU_TEXT
    };
    return texts[cpu];
}

static bool strings_choose(void) {
    const char *wanted = rcmi_setting("RINGCOMM_COPY");
    if (strcmp(wanted, "strings") == 0 || strcmp(wanted, "vectors") == 0)
        return strcmp(wanted, "strings") == 0;
    if (strcmp(wanted, "auto") != 0)
        rcmi_log(RCMI_LOG_WARN, "RINGCOMM_COPY=%s is not auto, vectors or strings, using auto",
                 wanted);
    return strings_are_better();
}

bool rcmi_cpu_copies_strings(void) {
    enum { UNKNOWN, VECTORS, STRINGS };
    static _Atomic int known;
    /* As above. */
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now == UNKNOWN) {
        now = strings_choose() ? STRINGS : VECTORS;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == STRINGS;
}
