/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All constants that rank 0 says for the whole job: which way data goes (protocol.h), what work
 * costs (price.h), which algorithms are named (choice.h). Built in, then the file of
 * RINGCOMM_TUNING, then RINGCOMM_PROTOCOL. One text holds them all, as it is read from that file
 * and as ranks publish it.
 */
#ifndef RCMI_TUNING_H
#define RCMI_TUNING_H

#include "price.h"
#include "protocol.h"

struct rcmi_tuning {
    struct rcmi_protocols protocols;
    struct rcmi_prices prices;
    char *choices; /* named algorithms, as text; NULL: none */
};

/* Those of this process. Free with rcmi_tuning_end. */
rcm_status rcmi_tuning_local(struct rcmi_tuning *ret_tuning);
/* Changes what a text says. RCM_ERR_CONFIG names origin and the item that is wrong. */
rcm_status rcmi_tuning_read(const char *text, const char *origin, struct rcmi_tuning *tuning);
/* As text that can be read again. Caller frees. */
rcm_status rcmi_tuning_write(const struct rcmi_tuning *tuning, char **ret_text);
void rcmi_tuning_end(struct rcmi_tuning *tuning);

/* The i-th constant of this process, in words: protocols, then prices. RCM_ERR_NOT_FOUND past the
 * last; RCM_ERR_CONFIG as rcmi_tuning_local. */
rcm_status rcmi_tuning_item(size_t i, struct rcmi_protocol_item *ret_item);

#endif
