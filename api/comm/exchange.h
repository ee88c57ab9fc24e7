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
/* Everybody's bytes to everybody, under one of the names of rendezvous.h. The caller frees each
 * ret_all[i].data. */
rcm_status rcmi_engine_collect(const struct rcmi_exchange_config *config, const char *name,
                               const void *mine, size_t len, struct rcm_blob *ret_all);
/* Fills in the engine's book, cpus and tuning. *ret_agreed becomes true once all ranks have
 * exchanged: what is found wrong from then on, all ranks find. */
rcm_status rcmi_engine_exchange(const struct rcmi_exchange_config *config, bool *ret_agreed);
/* Agrees, after it, on the ranks that share memory, for the engine's book and node, and checks that
 * each pair of ranks has a transport (sharing.c). */
rcm_status rcmi_engine_agree_sharing(const struct rcmi_exchange_config *config, bool *ret_agreed);

#endif
