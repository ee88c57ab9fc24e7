/* SPDX-License-Identifier: BSD-3-Clause */
/* Which copy is better on this CPU: see cpu.h. */
#include "cpu.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include "log.h"
#include "settings.h"

/*
 * Is "rep movsb" the better copy here? AMD's Zen 5 (family 0x1a) writes lines that another core has
 * read twice as fast by it; from Zen 3 on it may be very slow there (glibc's bug 30994), and
 * Intel's cores copy both ways alike. See "Copies by the string instruction" in
 * algorithms/PERFORMANCE.md.
 */
#if defined(__x86_64__)
#define ZEN_5          0x1a
#define FSRM_BIT       (1u << 4) /* leaf 7, edx: fast short "rep movsb" */
#define FAMILY_OF(eax) (((eax) >> 8 & 0xf) + ((eax) >> 20 & 0xff))

static bool cpu_copies_strings(void) {
    unsigned a, b, c, d, eax;
    if (!__builtin_cpu_is("amd") || !__get_cpuid(1, &eax, &b, &c, &d))
        return false;
    return FAMILY_OF(eax) >= ZEN_5 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & FSRM_BIT);
}
#else
static bool cpu_copies_strings(void) {
    return false;
}
#endif

static bool strings_choose(void) {
    const char *wanted = rcmi_setting("RINGCOMM_COPY");
    if (strcmp(wanted, "strings") == 0 || strcmp(wanted, "vectors") == 0)
        return strcmp(wanted, "strings") == 0;
    if (strcmp(wanted, "auto") != 0)
        rcmi_log(RCMI_LOG_WARN, "RINGCOMM_COPY=%s is not auto, vectors or strings, using auto",
                 wanted);
    return cpu_copies_strings();
}

bool rcmi_cpu_copies_strings(void) {
    enum { UNKNOWN, VECTORS, STRINGS };
    static _Atomic int known;
    /* Whoever looks first finds the same as all others, so relaxed has no partner. */
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now == UNKNOWN) {
        now = strings_choose() ? STRINGS : VECTORS;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == STRINGS;
}
