/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of a new communicator: ncclConfig_t, also of older versions. */
#include <stddef.h>
#include "nccl_comm.h"

#define CONFIG_HAS(config, field)                                                                  \
    (offsetof(ncclConfig_t, field) + sizeof((config)->field) <= (config)->size)

ncclResult_t comm_configure(struct ncclComm *comm, const struct ncclComm *parent,
                            const ncclConfig_t *config) {
    comm->blocking = parent ? parent->blocking : true;
    if (!config)
        return ncclSuccess;
    if (!CONFIG_HAS(config, version) || config->magic != NCCL_MAGIC)
        return face_fail(ncclInvalidArgument,
                         "config is not initialised: its size is %zu and its magic 0x%x. Use "
                         "NCCL_CONFIG_INITIALIZER",
                         config->size, config->magic);
    comm->blocking = true; /* a configuration without the field does not inherit it */
    if (CONFIG_HAS(config, blocking) && config->blocking != NCCL_UNDEFINED) {
        if (config->blocking != 0 && config->blocking != 1)
            return face_fail(ncclInvalidArgument, "config.blocking is %d. Use 0 or 1",
                             config->blocking);
        comm->blocking = config->blocking;
    }
    if (CONFIG_HAS(config, commName) && config->commName)
        snprintf(comm->name, sizeof comm->name, "%s", config->commName);
    return ncclSuccess;
}
