/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a device or a port cannot be used, and what to do about it: texts for the errors of rcm_init
 * and for `ringcomm-info --check verbs`. Not here: failures of an existing link.
 */
#ifndef RCMI_VERBS_DEVICE_FAULTS_H
#define RCMI_VERBS_DEVICE_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include "port_choice.h"
#include "table.h"

#define VERBS_SYS "/sys/class/infiniband" /* the kernel's devices */
#define VERBS_DEV "/dev/infiniband"       /* device files for programs */

/* libibverbs has found no device; sys and dev are the folders above. */
void verbs_explain_none(const char *sys, const char *dev, char *text, size_t cap);
/* NULL: the device may be used. named: the program's settings name it. */
const char *verbs_device_fault(const struct verbs_table *table, const struct ibv_device *device,
                               bool named);
/* The device could not be opened, with that error number. */
void verbs_explain_open(const struct ibv_device *device, int error, char *text, size_t cap);
/* NULL: the port is active. */
const char *verbs_port_fault(const struct ibv_port_attr *attr);
/* The networks of a rank's offer, "10.0.0.0/24, fe80::/64". */
void verbs_networks_text(const struct verbs_side *side, char *text, size_t cap);

#endif
