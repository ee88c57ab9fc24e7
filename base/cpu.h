/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of this CPU beyond its instruction set, for those who copy and those who prepare
 * what is copied to. Not here: which instructions there are (kernels/).
 */
#ifndef RCMI_CPU_H
#define RCMI_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Is the string instruction the better copy, from so many bytes on? RINGCOMM_COPY has the last
 * word. The instruction takes the lines that it writes without reading them, and is twice as slow
 * where they were asked for ahead. Any thread; looked up once. */
bool rcmi_cpu_copies_strings(void);
#define RCMI_STRING_MIN ((size_t)2048)

#endif
