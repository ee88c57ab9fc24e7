/* SPDX-License-Identifier: BSD-3-Clause */
/* The range of ports to listen on, RINGCOMM_PORTS. Not here: listening (socket.h). */
#ifndef RCMI_PORTS_H
#define RCMI_PORTS_H

#include "ringcomm.h"

/* "low-high" or one port; "" gives 0 to 0: any free port. RCM_ERR_CONFIG: neither. */
rcm_status rcmi_ports_parse(const char *text, int *ret_low, int *ret_high);

/* Fails: none of the ports is free. */
rcm_status rcmi_ports_fail_used(const char *text);

#endif
