/* SPDX-License-Identifier: BSD-3-Clause */
/* See wire_version.h. */
#include "wire_version.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "process.h"

#define PUBLISHED_FROM 8 /* the first version whose members publish it */

void rcmi_wire_head(char head[RCMI_WIRE_HEAD]) {
    struct rcmi_process self;
    rcmi_process_self(&self);
    memset(head, 0, RCMI_WIRE_HEAD);
    snprintf(head, RCMI_WIRE_HEAD, "wire=%d host=%s", RCMI_WIRE_VERSION, self.host);
}

rcm_status rcmi_wire_head_check(const void *bytes, size_t len, int r, int own_rank) {
    char head[RCMI_WIRE_HEAD] = "", host[RCMI_PROCESS_NAME + 1] = "", who[120];
    int version;
    memcpy(head, bytes, len < sizeof(head) ? len : sizeof(head) - 1);
    if (sscanf(head, "wire=%9d host=%64s", &version, host) != 2 || version < 1)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, r,
                                "rank %d published %zu bytes without its wire version", r, len);
    if (version == RCMI_WIRE_VERSION)
        return RCM_OK;
    rcmi_text_clean(host);
    snprintf(who, sizeof(who), "rank %d on %s", r, host);
    return rcmi_wire_differs(r, who, version, own_rank);
}

rcm_status rcmi_wire_differs(int rank, const char *who, int theirs, int own_rank) {
    struct rcmi_process self;
    char version[24];
    rcmi_process_self(&self);
    snprintf(version, sizeof(version), theirs ? "%d" : "below %d",
             theirs ? theirs : PUBLISHED_FROM);
    return rcmi_fail_origin(RCM_ERR_MISMATCH, rank,
                            "%s has wire version %s, rank %d on %s has %d: use the same version "
                            "of libringcomm on all ranks",
                            who, version, own_rank, self.host, RCMI_WIRE_VERSION);
}
