/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives that are started again (start.c). Their front doors: ringcomm.h. */
#ifndef RCMI_MESSAGE_H
#define RCMI_MESSAGE_H

#include "ringcomm.h"

struct rcmi_template;

/* Issues it, as a part of a persistent work; if it cannot, comm fails. */
rcm_status rcmi_message_start(struct rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole);

#endif
