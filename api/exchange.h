/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of rcm_init: every rank publishes its address, its settings and its CPUs, and rank 0
 * the constants of the job; what comes of it is the engine's.
 */
#ifndef RCMI_EXCHANGE_H
#define RCMI_EXCHANGE_H

#include "engine.h"

#define RCMI_SETTINGS_TEXT 512

struct rcmi_exchange_config {
    struct rcmi_engine *engine; /* has its node, and joined the store */
    rcm_store *store;
    const struct rcmi_launch *launch;
    const char *settings; /* RCMI_SETTINGS_TEXT bytes: a text that must be equal on all ranks */
    rcmi_deadline deadline;
};
/* Fills in the engine's book, cpus and tuning. *ret_agreed becomes true once all ranks have
 * exchanged: what is found wrong from then on, all ranks find. */
rcm_status rcmi_engine_exchange(const struct rcmi_exchange_config *config, bool *ret_agreed);

#endif
