/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Near ranks: those of this host whose CPUs share one last-level cache with this rank's. Slots that
 * only near ranks read are written by temporal stores, as the data stay in that cache
 * (transport/protocol.h).
 *
 * RINGCOMM_NEAR=1 or 0 decides for all ranks of the host. Without it the affinity masks of the
 * ranks and sysfs decide, but no rank of a virtual machine is near: its CPUs move between caches
 * that the machine does not show. A wrong "near" costs a factor of 3, a wrong "far" a factor of 2.
 */
#ifndef RCMI_NEAR_H
#define RCMI_NEAR_H

#include "ringcomm.h"

struct rcmi_engine;

/* Finds the near ranks and hands them to the engine's node. The engine has the book and the CPUs of
 * all ranks. RCM_ERR_CONFIG: RINGCOMM_NEAR is neither auto, 0 nor 1. */
rcm_status rcmi_engine_find_near(const struct rcmi_engine *engine);

#endif
