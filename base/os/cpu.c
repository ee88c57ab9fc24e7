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
#define FSRM_BIT       (1u << 4)  /* leaf 7, edx: fast short "rep movsb" */
#define HYPERVISOR_BIT (1u << 31) /* leaf 1, ecx */
#define FAMILY_OF(eax) (((eax) >> 8 & 0xf) + ((eax) >> 20 & 0xff))

/* __builtin_cpu_is and _supports find no features with zig's runtime. */
static enum rcmi_cpu cpu_find(void) {
    unsigned eax, vendor, c, d, b;
    if (!__get_cpuid(0, &eax, &vendor, &c, &d) || !__get_cpuid(1, &eax, &b, &c, &d))
        return RCMI_CPU_OTHER;
    if (vendor == signature_INTEL_ebx)
        return RCMI_CPU_INTEL;
    if (vendor != signature_AMD_ebx)
        return RCMI_CPU_OTHER;
    return FAMILY_OF(eax) >= ZEN_5 ? RCMI_CPU_ZEN_5 : RCMI_CPU_ZEN;
}

/* AMD's Zen 5 writes lines that another core has read twice as fast with "rep movsb". On Zen 3 and
 * 4 it may be very slow (glibc bug 30994), and on Zen 3 it is faster only between the threads of
 * one core: between two cores of one cache it takes up to twice as long. Intel's cores copy equally
 * fast with both. */
static bool strings_are_better(void) {
    unsigned a, b, c, d;
    return rcmi_cpu() == RCMI_CPU_ZEN_5 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & FSRM_BIT) != 0;
}
/* Checks instructions of leaf 7, ebx, and that the kernel saves their registers (bits of XCR0). */
static bool cpu_has(unsigned instructions, unsigned registers) {
    const unsigned base = bit_OSXSAVE | bit_AVX | bit_F16C;
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & base) != base)
        return false;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    return (saved & registers) == registers && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & instructions) == instructions;
}

bool rcmi_cpu_has_avx2(void) {
    return cpu_has(bit_AVX2, 0x06);
}

bool rcmi_cpu_has_avx512(void) {
    return cpu_has(bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL, 0xe6);
}

bool rcmi_cpu_is_virtual(void) {
    unsigned a, b, c, d;
    return !__get_cpuid(1, &a, &b, &c, &d) || (c & HYPERVISOR_BIT) != 0;
}
#else
static enum rcmi_cpu cpu_find(void) {
    return RCMI_CPU_OTHER;
}

bool rcmi_cpu_has_avx2(void) {
    return false;
}

bool rcmi_cpu_has_avx512(void) {
    return false;
}

bool rcmi_cpu_is_virtual(void) {
    return true;
}

static bool strings_are_better(void) {
    return false;
}
#endif

enum rcmi_cpu rcmi_cpu(void) {
    static _Atomic int known = -1;
    /* Concurrent first callers find the same value, so relaxed needs no partner. */
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
    /* Relaxed as in rcmi_cpu. */
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now == UNKNOWN) {
        now = strings_choose() ? STRINGS : VECTORS;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == STRINGS;
}
