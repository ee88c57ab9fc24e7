/* SPDX-License-Identifier: BSD-3-Clause */
/* The only internal collective. The others: ringcomm.h. */
#ifndef RCMI_COLLECTIVE_H
#define RCMI_COLLECTIVE_H

#include "ringcomm.h"

/* The barrier of rcm_destroy, which differs from every user call. */
rcm_status rcmi_barrier_parting(struct rcm_comm *comm);

#endif
