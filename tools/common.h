/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the command line tools: messages, parsing of arguments, facts about the machine. Not
 * part of the library; uses only ringcomm.h.
 */
#ifndef RINGCOMM_TOOLS_COMMON_H
#define RINGCOMM_TOOLS_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of every tool. */
enum tool_exit { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* Prints "PROGRAM: text" to stderr in one write, so that lines of several ranks do not mix. */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Parses the whole text; sets *ret_value only on success. */
bool tool_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret_value);
/* "4", "64K", "1M", "2G" (powers of 1024, upper or lower case); not negative. */
bool tool_parse_size(const char *text, int64_t *ret_value);
/* Decimal seconds above zero, at most a year: "0.5", "120". As milliseconds. */
bool tool_parse_seconds(const char *text, int64_t *ret_ms);

/* Whether the text is "auto", a number from 0 to 65535, or begins like a GPU's UUID. The library
 * checks whether the device exists. */
bool tool_is_device(const char *text);

/* CLOCK_MONOTONIC. */
int64_t tool_now_ns(void);

/* Writes the numbers of the bits that are set, "0-3,8", cut to fit; bit i of byte i / 8 is i. */
void tool_list_bits(const uint8_t *bits, size_t bytes, char *ret_list, size_t len);

/* The CPUs of this process's affinity mask as bits; none if the mask has more bytes. */
void tool_cpu_mask(uint8_t *ret_bits, size_t bytes);

/* The number of CPUs in this process's affinity mask, and their list, "0-3,8", cut to fit. */
int tool_cpus(char *ret_list, size_t len);

/* The CPU's model name, or its architecture if the kernel has no name. */
void tool_cpu_model(char *ret_text, size_t len);

/* argv joined by spaces; arguments with special characters are in single quotes. */
void tool_join_command(int argc, char *const *argv, char *ret_text, size_t len);

/* Appends ", name" to list (the first: "name"), cut to fit. */
void tool_list_add(char *list, size_t len, const char *name);

#endif
