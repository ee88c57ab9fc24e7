/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public structs that grow (ringcomm.h, STRUCTS THAT GROW): what a program built with another
 * version of the header gives is made what this library knows, and the reverse. Only sizes and
 * bytes are looked at here; what the fields hold is checked by the functions that take them.
 *
 * A struct that grows gets its new fields at its end, behind the whole sizeof of the last version
 * (padding at the end becomes a field first), and 0 in a new field means what was before it. The
 * size of the first version is frozen below.
 */
#ifndef RCMI_STRUCT_VERSIONS_H
#define RCMI_STRUCT_VERSIONS_H

#include "ringcomm.h"

#define RCMI_SIZED_MAX 4096 /* bytes; a larger size is one that was never set */

/* From the beginning of a struct to the end of a field. */
#define RCMI_SIZE_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

/* Sizes of the first versions: to the last field that they had. */
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
    const char *name; /* of the argument: "call" */
    const char *init; /* the macro that sets its size: "RCM_CALL_INIT" */
    uint32_t first;   /* bytes of its first version */
    uint32_t ours;    /* bytes of the version of this library */
};

/* Reads: copies what `given` has over `ours`, which holds the defaults, and keeps ours->size.
 * RCM_ERR_INVALID if given->size is less than the first version, or if a field is set that this
 * library does not know; `ours` is as before then. */
rcm_status rcmi_struct_in(const struct rcmi_sized *sized, const void *given, void *ours);

/* Writes: whether given->size is one that rcmi_struct_out can fill. */
rcm_status rcmi_struct_out_check(const struct rcmi_sized *sized, const void *given);
/* Copies `ours` to `given`, no more than given->size bytes; what lies beyond ours becomes 0, and
 * given->size stays. */
void rcmi_struct_out(const struct rcmi_sized *sized, const void *ours, void *given);

#endif
