/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-info --cpus: the last-level caches of this machine, which ranks would be near each other
 * (transport/locality.h), and what follows for channels.
 */
#ifndef RINGCOMM_TOOLS_INFO_NEAR_H
#define RINGCOMM_TOOLS_INFO_NEAR_H

struct info_near {
    char caches_count[16];
    char caches[512]; /* the CPUs of each, "0-7; 8-15" */
    /* The ranks that would be near a rank with the CPUs of this process: all, those of its cache,
     * or none. */
    const char *value;
    const char *origin;
    char text[512]; /* the reason, and what follows for channels */
};
void info_near_find(struct info_near *near);

#endif
