/* SPDX-License-Identifier: BSD-3-Clause */
/* A cache line that is going to be written is asked for ahead. */
#ifndef RCMI_PREFETCH_H
#define RCMI_PREFETCH_H

/* Does nothing where the processor knows no such thing. Compilers make a prefetch for reading of
 * their built-in one, unless told that the processor has more than every x86-64 has; those that do
 * not have it take this one for no operation. */
static inline void rcmi_prefetch_write(const void *line) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif
