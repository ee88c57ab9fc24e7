/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of rcm_init: every rank publishes its address, settings and CPUs, and rank 0 the
 * constants of the job. The results are stored in the engine.
 */
#ifndef RCMI_EXCHANGE_H
#define RCMI_EXCHANGE_H

#include "engine.h"

#define RCMI_SETTINGS_TEXT 512

struct rcmi_exchange_config {
    struct rcmi_engine *engine; /* has its node, and has joined the store */
    rcm_store *store;
    const struct rcmi_launch *launch;
    const char *settings; /* RCMI_SETTINGS_TEXT bytes: a text that must be equal on all ranks */
    rcmi_deadline deadline;
};
/* All-gather of bytes through the store, under one of the names of rendezvous.h. The caller frees
 * each ret_all[i].data. */
rcm_status rcmi_engine_collect(const struct rcmi_exchange_config *config, const char *name,
                               const void *mine, size_t len, struct rcm_blob *ret_all);
/* Fills in the engine's book, cpus and tuning. *ret_agreed becomes true once all ranks have
 * exchanged: an error found after that is found by all ranks. */
rcm_status rcmi_engine_exchange(const struct rcmi_exchange_config *config, bool *ret_agreed);
/* Next step: agrees on the ranks that share memory, for the engine's book and node, and checks that
 * each pair of ranks has a transport (sharing.c). */
rcm_status rcmi_engine_agree_sharing(const struct rcmi_exchange_config *config, bool *ret_agreed);

#endif
