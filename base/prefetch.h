/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetch of a cache line for writing. */
#ifndef RCMI_PREFETCH_H
#define RCMI_PREFETCH_H

/* A no-op if the processor has no such instruction. Compilers turn their built-in prefetch for
 * writing into one for reading, unless the target has more than the x86-64 baseline. x86-64
 * processors without prefetchw execute it as a no-op. */
static inline void rcmi_prefetch_write(const void *line) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif
