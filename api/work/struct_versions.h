/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public structs that can grow (ringcomm.h, STRUCT VERSIONS): conversion between the version of the
 * program's header and this library's. Only sizes and bytes are checked here. Functions that take a
 * struct check its fields.
 *
 * New fields are added at the end, after the whole sizeof of the last version (padding at the end
 * becomes a field first). 0 in a new field selects the earlier behaviour. The size of the first
 * version is frozen below.
 */
#ifndef RCMI_STRUCT_VERSIONS_H
#define RCMI_STRUCT_VERSIONS_H

#include "ringcomm.h"

#define RCMI_SIZED_MAX 4096 /* bytes; a larger size was never set */

/* Bytes from the beginning of a struct to the end of a field. */
#define RCMI_SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* Sizes of the first versions, up to their last field. */
#define RCMI_INIT_OPTIONS_SIZE_0    RCMI_SIZE_TO(struct rcm_init_options, timeout_ms)
#define RCMI_ERROR_SIZE_0           RCMI_SIZE_TO(struct rcm_error, text)
#define RCMI_CALL_SIZE_0            RCMI_SIZE_TO(struct rcm_call, algorithm)
#define RCMI_MESSAGE_SIZE_0         RCMI_SIZE_TO(struct rcm_message, bytes)
#define RCMI_PROTOCOL_SIZE_0        RCMI_SIZE_TO(struct rcm_protocol_info, help)
#define RCMI_COLLECTIVE_SIZE_0      RCMI_SIZE_TO(struct rcm_collective_info, contributors)
#define RCMI_COUNTERS_SIZE_0        RCMI_SIZE_TO(struct rcm_counters, transports)
#define RCMI_STORE_FUNCTIONS_SIZE_0 RCMI_SIZE_TO(struct rcm_store_functions, close)

/* One such struct. */
struct rcmi_sized {
    const char *name; /* the argument's name, such as "call" */
    const char *init; /* the macro that sets its size, such as "RCM_CALL_INIT" */
    uint32_t first;   /* bytes of its first version */
    uint32_t ours;    /* bytes of this library's version */
};

/* Reads: copies `given` over `ours`, which holds the defaults, and keeps ours->size.
 * RCM_ERR_INVALID, with `ours` unchanged: given->size is below the first version, or a field is set
 * that this library lacks. */
rcm_status rcmi_struct_in(const struct rcmi_sized *sized, const void *given, void *ours);

/* Writes: checks whether rcmi_struct_out can fill given->size bytes. */
rcm_status rcmi_struct_out_check(const struct rcmi_sized *sized, const void *given);
/* Copies `ours` to `given`, at most given->size bytes. Bytes beyond ours become 0, and given->size
 * stays. */
void rcmi_struct_out(const struct rcmi_sized *sized, const void *ours, void *given);

#endif
