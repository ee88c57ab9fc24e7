/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The constants that rank 0 sets for the whole job: protocol thresholds (protocol.h), prices of
 * work (price.h), named algorithms (choice.h), and whether ranks are near (locality.h). Built-in
 * values are overridden by the file of RINGCOMM_TUNING, and that by RINGCOMM_PROTOCOL. One text
 * format holds them all: the file's, which ranks also publish.
 */
#ifndef RCMI_TUNING_H
#define RCMI_TUNING_H

#include "locality.h"
#include "price.h"
#include "protocol.h"

/* The item "near" of a text: auto, 0 or 1. */
#define RCMI_TUNING_NEAR_HELP "1: all ranks of a host are near, 0: none; auto: by caches"

struct rcmi_tuning {
    struct rcmi_protocols protocols;
    struct rcmi_prices prices;
    enum rcmi_near_choice near;
    char *choices; /* named algorithms, as text; NULL: none */
};

/* The constants of this process. Free with rcmi_tuning_end. */
rcm_status rcmi_tuning_local(struct rcmi_tuning *ret_tuning);
/* Applies the items of a text. RCM_ERR_CONFIG names origin and the wrong item. */
rcm_status rcmi_tuning_read(const char *text, const char *origin, struct rcmi_tuning *tuning);
/* Writes text that rcmi_tuning_read accepts. Caller frees. */
rcm_status rcmi_tuning_write(const struct rcmi_tuning *tuning, char **ret_text);
void rcmi_tuning_end(struct rcmi_tuning *tuning);

/* The i-th constant of this process as text: protocols, prices, near. RCM_ERR_NOT_FOUND: past the
 * last one. RCM_ERR_CONFIG: as rcmi_tuning_local. */
rcm_status rcmi_tuning_item(size_t i, struct rcmi_protocol_item *ret_item);

#endif
