/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RINGCOMM_CHAOS, a comma-separated list:
 *   seed=N     seed of all random choices (default 1)
 *   delay=US   messages become visible up to US microseconds late (default 0)
 *   often=P    ... in P percent of the cases (default 100)
 *   fault=F    corrupt, short, cut, close, isolate or stall: injected once, on one rank
 *   rank=R     ... on rank R (default: drawn from the seed)
 *   after=K    ... when one of its channels has carried K messages (default 10)
 */
#include <stdlib.h>
#include <string.h>
#include "chaos.h"

static const char *const fault_names[] = {
    [CHAOS_NONE] = "none",   [CHAOS_CORRUPT] = "corrupt", [CHAOS_SHORT] = "short",
    [CHAOS_CUT] = "cut",     [CHAOS_CLOSE] = "close",     [CHAOS_ISOLATE] = "isolate",
    [CHAOS_STALL] = "stall",
};

uint64_t chaos_draw(const struct chaos_orders *orders, uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t words[3] = {a, b, c};
    uint64_t x = orders->seed;
    for (int i = 0; i < 3; i++) { /* splitmix64 */
        x += words[i] + UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return x;
}

static bool number_parse(const char *text, uint64_t max, uint64_t *ret_value) {
    uint64_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && c - text < 18; c++)
        value = value * 10 + (uint64_t)(*c - '0');
    if (c == text || *c || value > max)
        return false;
    *ret_value = value;
    return true;
}

static bool fault_parse(const char *text, enum chaos_fault *ret_fault) {
    for (size_t i = 0; i < sizeof fault_names / sizeof fault_names[0]; i++) {
        if (strcmp(fault_names[i], text) == 0) {
            *ret_fault = (enum chaos_fault)i;
            return true;
        }
    }
    return false;
}

static bool order_parse(const char *key, const char *value, uint64_t nranks,
                        struct chaos_orders *orders) {
    uint64_t rank = 0;
    if (strcmp(key, "seed") == 0)
        return number_parse(value, UINT64_MAX, &orders->seed);
    if (strcmp(key, "delay") == 0)
        return number_parse(value, 1000000, &orders->delay_us);
    if (strcmp(key, "often") == 0)
        return number_parse(value, 100, &orders->often);
    if (strcmp(key, "after") == 0)
        return number_parse(value, UINT64_MAX, &orders->after) && orders->after > 0;
    if (strcmp(key, "fault") == 0)
        return fault_parse(value, &orders->fault);
    if (strcmp(key, "rank") != 0 || !number_parse(value, nranks - 1, &rank))
        return false;
    orders->rank = (int)rank;
    return true;
}

rcm_status chaos_orders_parse(const char *text, int nranks, struct chaos_orders *ret_orders) {
    struct chaos_orders orders = {.seed = 1, .often = 100, .rank = -1, .after = 10};
    char *copy = strdup(text), *save = NULL;
    if (!copy)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for RINGCOMM_CHAOS");
    bool valid = text[0] != '\0';
    for (char *item = strtok_r(copy, ",", &save); valid && item;
         item = strtok_r(NULL, ",", &save)) {
        char *value = strchr(item, '=');
        if (value)
            *value++ = '\0';
        valid = value && order_parse(item, value, (uint64_t)nranks, &orders);
    }
    free(copy);
    if (!valid)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "RINGCOMM_CHAOS=%s is not valid. Write it like "
                         "seed=7,delay=500,often=20,fault=cut,rank=2,after=100",
                         text);
    if (orders.rank < 0)
        orders.rank = (int)(chaos_draw(&orders, 0, 0, 0) % (uint64_t)nranks);
    *ret_orders = orders;
    return RCM_OK;
}
