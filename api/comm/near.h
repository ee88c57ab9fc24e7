/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near ranks: those of this host that transport/locality.h finds near, by the CPUs that each rank
 * has published.
 */
#ifndef RCMI_NEAR_H
#define RCMI_NEAR_H

#include "ringcomm.h"

struct rcmi_engine;
struct rcmi_page_near;

/* Finds the near ranks, hands them to the engine's node, and describes them for the status page.
 * The engine has the book and the CPUs of all ranks. RCM_ERR_CONFIG: RINGCOMM_NEAR is neither auto,
 * 0 nor 1. */
rcm_status rcmi_engine_find_near(const struct rcmi_engine *engine, struct rcmi_page_near *ret_near);

#endif
