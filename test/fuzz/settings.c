/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: sizes, numbers, durations and the secret's file (base/settings/settings.c). The
 * first byte selects: a size of a tool's option, a number or a duration from the environment, or a
 * file with a secret.
 */
#include "fuzz.h"
#include "auth.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"
#include "settings.h"

static void take_size(const char *text) {
    char again_text[32];
    int64_t value = -1, again = -1;
    rcm_status status = rcmi_parse_size(text, &value);
    fuzz_judge(status);
    if (status != RCM_OK)
        return;
    fuzz_require(value >= 0, "a size is not negative");
    snprintf(again_text, sizeof again_text, "%lld", (long long)value);
    fuzz_require(rcmi_parse_size(again_text, &again) == RCM_OK && again == value,
                 "a size reads back");
}

static void take_number(const char *text) {
    int64_t value = 0;
    setenv("RINGCOMM_SLOT_BYTES", text, 1);
    rcm_status status = rcmi_setting_int("RINGCOMM_SLOT_BYTES", -4096, 1 << 20, &value);
    fuzz_judge(status);
    fuzz_require(status != RCM_OK || (value >= -4096 && value <= 1 << 20), "a number in range");
    unsetenv("RINGCOMM_SLOT_BYTES");
}

static void take_duration(const char *text) {
    int64_t value = 0;
    setenv("RINGCOMM_TIMEOUT", text, 1);
    rcm_status status =
        rcmi_setting_duration("RINGCOMM_TIMEOUT", RCMI_SECOND, 1000, RCMI_SECOND * 3600, &value);
    fuzz_judge(status);
    fuzz_require(status != RCM_OK || (value >= 1000 && value <= RCMI_SECOND * 3600),
                 "a duration in range");
    unsetenv("RINGCOMM_TIMEOUT");
}

static void take_secret(const uint8_t *data, size_t size) {
    char path[32], *secret = NULL;
    fuzz_file(data, size, path);
    unsetenv("RINGCOMM_SECRET");
    setenv("RINGCOMM_SECRET_FILE", path, 1);
    rcm_status status = rcmi_secret(&secret);
    fuzz_judge(status);
    if (status == RCM_OK)
        fuzz_require(secret && *secret && strlen(secret) <= size,
                     "a secret is what the file holds");
    free(secret);
    unsetenv("RINGCOMM_SECRET_FILE");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    if (data[0] % 4 == 0)
        take_size(text);
    else if (data[0] % 4 == 1)
        take_number(text);
    else if (data[0] % 4 == 3)
        take_duration(text);
    else
        take_secret(data + 1, size - 1);
    free(text);
    return 0;
}
