/* SPDX-License-Identifier: BSD-3-Clause */
/* See ports.h. */
#include "ports.h"

#include <errno.h>
#include <stdlib.h>
#include "error.h"

rcm_status rcmi_ports_parse(const char *text, int *ret_low, int *ret_high) {
    char *end = NULL;
    long low = 0, high = 0;
    if (text[0]) {
        low = high = strtol(text, &end, 10);
        if (end != text && *end == '-') {
            const char *second = end + 1;
            high = strtol(second, &end, 10);
            end = end == second ? NULL : end;
        }
        if (!end || end == text || *end || low < 1 || high > 65535 || low > high)
            return rcmi_fail(RCM_ERR_CONFIG, 0,
                             "RINGCOMM_PORTS is '%s', not a range of ports such as 20000-20100",
                             text);
    }
    *ret_low = (int)low;
    *ret_high = (int)high;
    return RCM_OK;
}

rcm_status rcmi_ports_fail_used(const char *text) {
    return rcmi_fail(RCM_ERR_RESOURCE, EADDRINUSE,
                     "no port of RINGCOMM_PORTS (%s) is free: each rank of a host needs one, and "
                     "so does a store without a fixed port. Extend the range",
                     text);
}
