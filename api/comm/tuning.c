/* SPDX-License-Identifier: BSD-3-Clause */
/* See tuning.h. */
#include "tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "choice.h"
#include "error.h"
#include "settings.h"

/* Appends the item. Its algorithms are looked up later, when the ranks are known. */
static rcm_status choices_add(struct rcmi_tuning *tuning, const struct rcmi_item *item) {
    const size_t used = tuning->choices ? strlen(tuning->choices) : 0;
    char *choices = realloc(tuning->choices, used + item->len + 2);
    if (!choices)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for named algorithms");
    choices[used] = ' ';
    memcpy(choices + used + 1, item->text, item->len);
    choices[used + 1 + item->len] = '\0';
    tuning->choices = choices;
    return RCM_OK;
}

static rcm_status near_take(const struct rcmi_item *item, const char *origin,
                            enum rcmi_near_choice *near) {
    const char *suffix;
    size_t len;
    if (!rcmi_item_is(item, "near", &suffix, &len) || suffix)
        return RCM_ERR_NOT_FOUND;
    if (!item->value || !rcmi_near_choice_read(item->value, item->value_len, near))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: '%.*s' is not near=auto, near=0 or near=1", origin,
                         (int)(item->len < 80 ? item->len : 80), item->text);
    return RCM_OK;
}

static rcm_status item_take(const struct rcmi_item *item, const char *origin,
                            struct rcmi_tuning *tuning) {
    rcm_status status = rcmi_protocols_take(item, origin, &tuning->protocols);
    if (status == RCM_ERR_NOT_FOUND)
        status = rcmi_prices_take(item, origin, &tuning->prices);
    if (status == RCM_ERR_NOT_FOUND)
        status = near_take(item, origin, &tuning->near);
    if (status == RCM_ERR_NOT_FOUND)
        status =
            rcmi_choice_known(item) ? choices_add(tuning, item) : rcmi_item_unknown(item, origin);
    return status;
}

rcm_status rcmi_tuning_read(const char *text, const char *origin, struct rcmi_tuning *tuning) {
    struct rcmi_item item;
    while (rcmi_item_next(&text, &item)) {
        const rcm_status status = item_take(&item, origin, tuning);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

rcm_status rcmi_tuning_local(struct rcmi_tuning *ret_tuning) {
    char *text;
    struct rcmi_tuning tuning = {.protocols = *rcmi_protocols_of(rcmi_cpu()),
                                 .prices = *rcmi_prices_of(rcmi_cpu())};
    rcm_status status = rcmi_tuning_text(&text);
    if (status != RCM_OK)
        return status;
    status = rcmi_tuning_read(text, rcmi_setting("RINGCOMM_TUNING"), &tuning);
    free(text);
    if (status == RCM_OK)
        status = rcmi_protocols_read(rcmi_setting("RINGCOMM_PROTOCOL"), "RINGCOMM_PROTOCOL",
                                     &tuning.protocols);
    if (status != RCM_OK) {
        rcmi_tuning_end(&tuning);
        return status;
    }
    *ret_tuning = tuning;
    return RCM_OK;
}

rcm_status rcmi_tuning_write(const struct rcmi_tuning *tuning, char **ret_text) {
    const char *choices = tuning->choices ? tuning->choices : "";
    const size_t size =
        RCMI_PROTOCOLS_TEXT + RCMI_PRICES_TEXT + strlen(choices) + sizeof(" near=auto") + 2;
    char *text = malloc(size), *prices = malloc(RCMI_PRICES_TEXT);
    if (!text || !prices) {
        free(text);
        free(prices);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the constants of all ranks");
    }
    rcmi_protocols_write(&tuning->protocols, text);
    rcmi_prices_write(&tuning->prices, prices);
    const size_t used = strlen(text);
    snprintf(text + used, size - used, " %s near=%s%s", prices, rcmi_near_choice_text(tuning->near),
             choices);
    free(prices);
    *ret_text = text;
    return RCM_OK;
}

void rcmi_tuning_end(struct rcmi_tuning *tuning) {
    free(tuning->choices);
    tuning->choices = NULL;
}

/* ---- As text --------------------------------------------------------------------------------- */

/* Whether the file sets it. A negative price, which no text contains, stays unchanged if not. */
static rcm_status price_is_set(size_t i, bool *ret_set) {
    struct rcmi_tuning tuning = {.choices = NULL};
    double *rates = (double *)(void *)&tuning.prices.of[i % RCMI_SHARINGS];
    char *text;
    rcm_status status = rcmi_tuning_text(&text);
    if (status != RCM_OK)
        return status;
    rates[i / RCMI_SHARINGS] = -1;
    status = rcmi_tuning_read(text, rcmi_setting("RINGCOMM_TUNING"), &tuning);
    *ret_set = rates[i / RCMI_SHARINGS] >= 0;
    rcmi_tuning_end(&tuning);
    free(text);
    return status;
}

static rcm_status price_item(const struct rcmi_prices *prices, size_t i,
                             struct rcmi_protocol_item *ret_item) {
    char built_in[RCMI_PRICE_TEXT], value[RCMI_PRICE_TEXT];
    bool set = false;
    ret_item->help = rcmi_prices_at(rcmi_prices_of(rcmi_cpu()), i, ret_item->name, built_in);
    if (!ret_item->help)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there are no more constants");
    rcmi_prices_at(prices, i, ret_item->name, value);
    snprintf(ret_item->built_in, sizeof(ret_item->built_in), "%s", built_in);
    snprintf(ret_item->value, sizeof(ret_item->value), "%s", value);
    const rcm_status status = price_is_set(i, &set);
    if (set)
        snprintf(ret_item->origin, sizeof(ret_item->origin), "RINGCOMM_TUNING");
    else
        snprintf(ret_item->origin, sizeof(ret_item->origin), "built in for %s",
                 rcmi_cpu_text(rcmi_cpu()));
    return status;
}

static rcm_status near_item(const struct rcmi_tuning *tuning, struct rcmi_protocol_item *ret_item) {
    const bool set = tuning->near != RCMI_NEAR_AUTO;
    snprintf(ret_item->name, sizeof(ret_item->name), "near");
    snprintf(ret_item->built_in, sizeof(ret_item->built_in), "auto");
    snprintf(ret_item->value, sizeof(ret_item->value), "%s", rcmi_near_choice_text(tuning->near));
    snprintf(ret_item->origin, sizeof(ret_item->origin), "%s",
             set ? "RINGCOMM_TUNING" : "built in for all CPUs");
    ret_item->help = RCMI_TUNING_NEAR_HELP;
    return RCM_OK;
}

rcm_status rcmi_tuning_item(size_t i, struct rcmi_protocol_item *ret_item) {
    struct rcmi_tuning tuning;
    rcm_status status = rcmi_tuning_local(&tuning); /* all items are valid, or none is returned */
    if (status != RCM_OK)
        return status;
    if (i < RCMI_PROTOCOL_ITEMS)
        status = rcmi_protocols_item(i, ret_item);
    else
        status = price_item(&tuning.prices, i - RCMI_PROTOCOL_ITEMS, ret_item);
    if (status == RCM_ERR_NOT_FOUND &&
        i == RCMI_PROTOCOL_ITEMS + (size_t)RCMI_PRICES * RCMI_SHARINGS)
        status = near_item(&tuning, ret_item);
    rcmi_tuning_end(&tuning);
    return status;
}
