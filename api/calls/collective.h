/* SPDX-License-Identifier: BSD-3-Clause */
/* The one collective that no user calls. The others: ringcomm.h. */
#ifndef RCMI_COLLECTIVE_H
#define RCMI_COLLECTIVE_H

#include "ringcomm.h"

/* The barrier of rcm_destroy: no call of a user is equal to it. */
rcm_status rcmi_barrier_parting(struct rcm_comm *comm);

#endif
