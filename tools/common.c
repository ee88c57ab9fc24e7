/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared parts of the command line tools: see common.h. */
#include "common.h"
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void tool_error(const char *format, ...) {
    char line[1200];
    int used = snprintf(line, sizeof(line), "%s: ", program_invocation_short_name);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
    va_end(args);

    size_t len = (size_t)used + (size_t)(more > 0 ? more : 0);
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    line[len++] = '\n';
    while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
        ;
}

bool tool_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret_value) {
    if (!isdigit((unsigned char)text[0]) && text[0] != '-')
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max)
        return false;
    *ret_value = value;
    return true;
}

bool tool_parse_size(const char *text, int64_t *ret_value) {
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno)
        return false;

    static const char units[] = "KMG";
    int shift = 0;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        shift = 10 * (int)(unit - units + 1);
        end++;
    }
    if (*end || value > INT64_MAX >> shift)
        return false;
    *ret_value = (int64_t)value << shift;
    return true;
}

bool tool_parse_seconds(const char *text, int64_t *ret_ms) {
    if (!isdigit((unsigned char)text[0]) && text[0] != '.')
        return false;
    char *end;
    double seconds = strtod(text, &end) * tool_unit_seconds(end);
    if (!isfinite(seconds) || seconds < 0.001 || seconds > 366.0 * 86400)
        return false;
    *ret_ms = (int64_t)(seconds * 1000);
    return true;
}

bool tool_is_device(const char *text) {
    int64_t number;
    return strcmp(text, "auto") == 0 || tool_parse_int(text, 0, 65535, &number) ||
           strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0;
}

int64_t tool_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Appends "first-last" or "first". */
static void list_append(char *list, size_t len, size_t *used, int first, int last) {
    const char *comma = *used ? "," : "";
    int n = first == last ? snprintf(list + *used, len - *used, "%s%d", comma, first)
                          : snprintf(list + *used, len - *used, "%s%d-%d", comma, first, last);
    if (n > 0)
        *used = *used + (size_t)n < len ? *used + (size_t)n : len - 1;
}

static bool bits_has(const uint8_t *bits, size_t i) {
    return bits[i / 8] >> i % 8 & 1;
}

void tool_list_bits(const uint8_t *bits, size_t bytes, char *ret_list, size_t len) {
    const size_t n = bytes * 8;
    size_t used = 0;
    ret_list[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const size_t first = i;
        if (!bits_has(bits, i))
            continue;
        while (i + 1 < n && bits_has(bits, i + 1))
            i++;
        list_append(ret_list, len, &used, (int)first, (int)i);
    }
}

void tool_cpu_mask(uint8_t *ret_bits, size_t bytes) {
    memset(ret_bits, 0, bytes);
    (void)sched_getaffinity(0, bytes, (cpu_set_t *)(void *)ret_bits);
}

int tool_cpus(char *ret_list, size_t len) {
    ret_list[0] = '\0';
    const int max_cpus = 8192;
    const size_t bytes = CPU_ALLOC_SIZE(max_cpus);
    cpu_set_t *set = CPU_ALLOC(max_cpus);
    if (!set || sched_getaffinity(0, bytes, set) != 0) {
        CPU_FREE(set);
        return (int)sysconf(_SC_NPROCESSORS_ONLN);
    }
    tool_list_bits((const uint8_t *)set, bytes, ret_list, len);
    int count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return count;
}

void tool_cpu_model(char *ret_text, size_t len) {
    struct utsname uts;
    snprintf(ret_text, len, "%s", uname(&uts) == 0 ? uts.machine : "unknown");

    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(ret_text, len, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file)
        fclose(file);
}

void tool_join_command(int argc, char *const *argv, char *ret_text, size_t len) {
    size_t used = 0;
    ret_text[0] = '\0';
    for (int i = 0; i < argc && used + 1 < len; i++) {
        bool plain = argv[i][0] != '\0';
        for (const char *c = argv[i]; *c; c++)
            plain = plain && (isalnum((unsigned char)*c) || strchr("-_=./,:+%@", *c));
        int n =
            snprintf(ret_text + used, len - used, plain ? "%s%s" : "%s'%s'", i ? " " : "", argv[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

void tool_list_add(char *list, size_t len, const char *name) {
    const size_t used = strlen(list);
    snprintf(list + used, len - used, "%s%s", used ? ", " : "", name);
}
