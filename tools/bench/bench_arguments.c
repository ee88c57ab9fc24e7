/* SPDX-License-Identifier: BSD-3-Clause */
/* See bench_arguments.h. */
#include "bench_arguments.h"

#include <string.h>
#include "../common.h"

int64_t bench_argument_int(struct argp_state *state, const char *name, const char *text,
                           int64_t min, int64_t max) {
    int64_t value = 0;
    if (!tool_parse_int(text, min, max, &value))
        argp_error(state, "%s '%s': not a whole number from %lld to %lld", name, text,
                   (long long)min, (long long)max);
    return value;
}

int64_t bench_argument_size(struct argp_state *state, const char *name, const char *text) {
    int64_t value = 0;
    if (!tool_parse_size(text, &value) || value > INT64_C(1) << 40)
        argp_error(state, "%s '%s': not a size such as 8, 64K, 1M or 2G (at most 1024G)", name,
                   text);
    return value;
}

rcm_dtype bench_argument_dtype(struct argp_state *state, const char *text) {
    rcm_dtype dtype = RCM_FLOAT32;
    if (rcm_dtype_from_name(text, &dtype) == RCM_OK && dtype < RCM_OPAQUE)
        return dtype;
    static const rcm_dtype all[] = {
#define OPTION_DTYPE(name, number, bytes, ctype) RCM_##name,
        RCM_DTYPE_MAP(OPTION_DTYPE)
#undef OPTION_DTYPE
    };
    char names[512] = "";
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tool_list_add(names, sizeof(names), rcm_dtype_name(all[i]));
    argp_error(state, "-d '%s': no such type; there are %s", text, names);
    return dtype;
}

rcm_op bench_argument_op(struct argp_state *state, const char *text) {
    rcm_op op = RCM_SUM;
    if (bench_op_find(text, &op))
        return op;
    char names[256] = "";
    for (size_t i = 0; bench_op_at(i) != 0; i++)
        tool_list_add(names, sizeof(names), bench_op_name(bench_op_at(i)));
    argp_error(state, "-o '%s': no such operator; there are %s", text, names);
    return op;
}

bool bench_argument_memory(struct argp_state *state, const char *text) {
    const bool cuda = strcmp(text, "cuda") == 0;
    if (!cuda && strcmp(text, "host") != 0)
        argp_error(state, "--memory '%s': no such kind of memory; there are host and cuda", text);
    return cuda;
}

const char *bench_argument_device(struct argp_state *state, const char *text) {
    if (!tool_is_device(text))
        argp_error(state, "--device '%s': not auto, a number of a device or a UUID", text);
    return text;
}

void bench_argument_sizes(struct argp_state *state, const char *text,
                          struct bench_options *options) {
    char one[32];
    options->nsizes = 0;
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t len = strcspn(at, ",");
        if (options->nsizes == BENCH_MAX_SIZES || len >= sizeof(one))
            argp_error(state, "--sizes '%s': at most %d sizes", text, BENCH_MAX_SIZES);
        memcpy(one, at, len);
        one[len] = '\0';
        const int64_t size = bench_argument_size(state, "--sizes", one);
        const bool first = options->nsizes == 0;
        options->sizes[options->nsizes++] = size;
        options->min_bytes = first || size < options->min_bytes ? size : options->min_bytes;
        options->max_bytes = first || size > options->max_bytes ? size : options->max_bytes;
    }
}

/* Checks one transport of a list; its name has len characters. */
static void transport_check(struct argp_state *state, const char *text, size_t len) {
    char names[256] = "auto";
    struct rcm_transport_info info;
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++) {
        if (strlen(info.name) != len || strncmp(text, info.name, len) != 0)
            tool_list_add(names, sizeof(names), info.name);
        else if (info.usable)
            return;
        else
            argp_error(state, "--transport %s cannot be used here: %s", info.name, info.reason);
    }
    argp_error(state, "--transport '%.*s': no such transport; there are %s", (int)len, text, names);
}

void bench_argument_transport(struct argp_state *state, const char *text) {
    if (strcmp(text, "auto") == 0)
        return;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        transport_check(state, at, len);
        at += len;
        if (!*at)
            return;
    }
}

enum bench_what bench_argument_what(struct argp_state *state, const char *text) {
    for (int i = 0; i <= BENCH_KERNEL; i++)
        if (strcmp(text, bench_what_name((enum bench_what)i)) == 0)
            return (enum bench_what)i;
    argp_error(state, "'%s': no such collective; there are %s, all, kernel", text,
               bench_what_names());
    return BENCH_NWHAT;
}
