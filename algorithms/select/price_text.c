/* SPDX-License-Identifier: BSD-3-Clause */
/* The constants of prices as text; see price.h. Independent of the locale and exact, so all ranks
 * read equal values from rank 0's text. */
#include "price.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "error.h"

#define DECIMALS    3
#define THOUSANDTHS 1000
#define WHOLE_MAX   1000000000

static const struct {
    const char *name, *help;
} fields[] = {
#define FIELD(name, help) {#name, help},
    RCMI_PRICE_MAP(FIELD)
#undef FIELD
};

static const char *const sharings[RCMI_SHARINGS] = {"roomy", "oversubscribed"};

static double *field_at(struct rcmi_prices *prices, size_t field, int sharing) {
    return (double *)(void *)&prices->of[sharing] + field;
}

/* "12", "0.305"; no sign, no exponent. */
static bool number_read(const char *text, size_t len, double *ret_value) {
    int64_t whole = 0, part = 0, scale = THOUSANDTHS;
    size_t i = 0;
    for (; i < len && text[i] >= '0' && text[i] <= '9' && whole < WHOLE_MAX; i++)
        whole = whole * 10 + (text[i] - '0');
    const bool any = i > 0;
    if (i < len && text[i] == '.')
        for (i++; i < len && text[i] >= '0' && text[i] <= '9' && scale > 1; i++) {
            scale /= 10;
            part += (text[i] - '0') * scale;
        }
    *ret_value = (double)(whole * THOUSANDTHS + part) / THOUSANDTHS;
    return any && i == len && whole < WHOLE_MAX;
}

static void number_write(double value, char text[RCMI_PRICE_TEXT]) {
    const long long n = (long long)(value * THOUSANDTHS + 0.5);
    snprintf(text, RCMI_PRICE_TEXT, "%lld.%03lld", n / THOUSANDTHS, n % THOUSANDTHS);
    size_t len = strlen(text);
    while (text[len - 1] == '0')
        text[--len] = '\0';
    if (text[len - 1] == '.')
        text[--len] = '\0';
}

/* RCMI_PRICES: no price has that name. *ret_sharing -1: for both sharings. */
static size_t field_find(const struct rcmi_item *item, int *ret_sharing) {
    const char *suffix = NULL;
    size_t len = 0, field = 0;
    *ret_sharing = -1;
    while (field < RCMI_PRICES && !rcmi_item_is(item, fields[field].name, &suffix, &len))
        field++;
    for (int s = 0; suffix && field < RCMI_PRICES && s < RCMI_SHARINGS; s++)
        if (strlen(sharings[s]) == len && memcmp(sharings[s], suffix, len) == 0)
            *ret_sharing = s;
    return suffix && *ret_sharing < 0 ? RCMI_PRICES : field;
}

rcm_status rcmi_prices_take(const struct rcmi_item *item, const char *origin,
                            struct rcmi_prices *prices) {
    int sharing;
    double value;
    const size_t field = field_find(item, &sharing);
    if (field == RCMI_PRICES)
        return RCM_ERR_NOT_FOUND;
    if (!item->value || !number_read(item->value, item->value_len, &value))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: '%.*s' is not like %s=12 or %s=0.305", origin,
                         (int)(item->len < 80 ? item->len : 80), item->text, fields[field].name,
                         fields[field].name);
    for (int s = 0; s < RCMI_SHARINGS; s++)
        if (sharing < 0 || sharing == s)
            *field_at(prices, field, s) = value;
    return RCM_OK;
}

const char *rcmi_prices_at(const struct rcmi_prices *prices, size_t i,
                           char name[RCMI_PROTOCOL_NAME], char value[RCMI_PRICE_TEXT]) {
    struct rcmi_prices copy = *prices;
    const size_t field = i / RCMI_SHARINGS;
    const int sharing = (int)(i % RCMI_SHARINGS);
    if (field >= RCMI_PRICES)
        return NULL;
    snprintf(name, RCMI_PROTOCOL_NAME, "%s.%s", fields[field].name, sharings[sharing]);
    number_write(*field_at(&copy, field, sharing), value);
    return fields[field].help;
}

void rcmi_prices_write(const struct rcmi_prices *prices, char text[RCMI_PRICES_TEXT]) {
    char name[RCMI_PROTOCOL_NAME], value[RCMI_PRICE_TEXT];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; rcmi_prices_at(prices, i, name, value); i++)
        used += (size_t)snprintf(text + used, RCMI_PRICES_TEXT - used, "%s%s=%s", i ? " " : "",
                                 name, value);
}
