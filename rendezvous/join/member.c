/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes the records of ranks in a store; see member.h. */
#include "member.h"
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "error.h"
#include "launcher.h"
#include "url.h"

#define REFUSED "refused "

/* Splits off the next word of a text; "" at the end. */
static const char *next_word(char **rest) {
    char *word = strsep(rest, " ");
    return word ? word : "";
}

/* The next word as a number; false if it is not a number in the range. */
static bool next_number(char **rest, int64_t min, int64_t max, int64_t *ret_value) {
    return rcmi_parse_number(next_word(rest), min, max, ret_value) == RCM_OK;
}

static bool name_copy(const char *word, char *name, size_t cap) {
    size_t len = strlen(word);
    if (len == 0 || len >= cap)
        return false;
    for (const char *c = word; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    memcpy(name, word, len + 1);
    return true;
}

static bool next_name(char **rest, char *name, size_t cap) {
    return name_copy(next_word(rest), name, cap);
}

static bool next_is(char **rest, const char *expected) {
    return strcmp(next_word(rest), expected) == 0;
}

/* Makes a copy for parsing; false if it is too long to be one of ours, or contains a NUL. */
static bool value_copy(struct rcmi_bytes value, char text[RCMI_MEMBER_TEXT]) {
    if (value.len == 0 || value.len >= RCMI_MEMBER_TEXT || memchr(value.data, '\0', value.len))
        return false;
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    return true;
}

static bool clock_take(const char *word, struct rcmi_member *m) {
    int64_t clock;
    if (rcmi_parse_number(word, 0, INT64_MAX, &clock) != RCM_OK)
        return false;
    m->joined_clock = (uint64_t)clock;
    return true;
}

static bool timens_take(const char *word, struct rcmi_member *m) {
    int64_t number;
    if (rcmi_parse_number(word, 0, INT64_MAX, &number) != RCM_OK)
        return false;
    m->process.time_ns = (uint64_t)number;
    return true;
}

static bool wire_take(const char *word, struct rcmi_member *m) {
    int64_t wire;
    if (rcmi_parse_number(word, 1, INT_MAX, &wire) != RCM_OK)
        return false;
    m->wire = (int)wire;
    return true;
}

/* The NAME=VALUE fields after HOST. */
static bool member_take_more(char *rest, struct rcmi_member *m) {
    while (rest) {
        const char *word = next_word(&rest);
        const char *value = strchr(word, '=');
        if (!value || value == word)
            return false;
        if (strncmp(word, "wire=", 5) == 0 && !wire_take(value + 1, m))
            return false;
        if (strncmp(word, "clock=", 6) == 0 && !clock_take(value + 1, m))
            return false;
        if (strncmp(word, "timens=", 7) == 0 && !timens_take(value + 1, m))
            return false;
        if (strncmp(word, "id=", 3) == 0 && !name_copy(value + 1, m->job_id, sizeof m->job_id))
            return false;
    }
    return true;
}

static bool member_take(char *rest, struct rcmi_member *ret_member) {
    struct rcmi_member m = {.left = false};
    int64_t size, pid, parent, start, pid_ns;
    if (!next_is(&rest, "member") || !next_number(&rest, 1, INT64_MAX - 2, &m.generation))
        return false;
    const char *state = next_word(&rest);
    m.left = strcmp(state, "left") == 0;
    if (!m.left && strcmp(state, "joined") != 0)
        return false;
    if (!next_number(&rest, 1, RCMI_MAX_RANKS, &size) || !next_number(&rest, 0, INT_MAX, &pid) ||
        !next_number(&rest, 0, INT_MAX, &parent) || !next_number(&rest, 0, INT64_MAX, &start) ||
        !next_number(&rest, 0, INT64_MAX, &pid_ns) ||
        !next_name(&rest, m.process.boot, sizeof m.process.boot) ||
        !next_number(&rest, 0, INT64_MAX, &m.joined_at) ||
        !next_name(&rest, m.process.host, sizeof m.process.host) || !member_take_more(rest, &m))
        return false;
    m.world_size = (int)size;
    m.process.pid = (int)pid;
    m.process.parent = (int)parent;
    m.process.start = (uint64_t)start;
    m.process.pid_ns = (uint64_t)pid_ns;
    *ret_member = m;
    return true;
}

bool rcmi_member_parse(struct rcmi_bytes value, struct rcmi_member *ret_member) {
    char text[RCMI_MEMBER_TEXT];
    return value_copy(value, text) && member_take(text, ret_member);
}

void rcmi_member_write(const struct rcmi_member *m, char text[RCMI_MEMBER_TEXT]) {
    const struct rcmi_process *p = &m->process;
    char wire[20] = "", clock[32] = "", timens[32] = "";
    if (m->wire > 0)
        snprintf(wire, sizeof wire, " wire=%d", m->wire);
    if (m->joined_clock > 0)
        snprintf(clock, sizeof clock, " clock=%" PRIu64, m->joined_clock);
    if (p->time_ns > 0)
        snprintf(timens, sizeof timens, " timens=%" PRIu64, p->time_ns);
    snprintf(text, RCMI_MEMBER_TEXT,
             "member %" PRId64 " %s %d %d %d %" PRIu64 " %" PRIu64 " %s %" PRId64 " %s%s%s%s%s%s",
             m->generation, m->left ? "left" : "joined", m->world_size, p->pid, p->parent, p->start,
             p->pid_ns, p->boot, m->joined_at, p->host, wire, clock, timens,
             m->job_id[0] ? " id=" : "", m->job_id);
}

bool rcmi_job_parse(struct rcmi_bytes value, uint64_t *ret_number, struct rcmi_member *ret_member) {
    char text[RCMI_MEMBER_TEXT], *rest = text, *end;
    if (!value_copy(value, text) || !next_is(&rest, "job"))
        return false;
    const char *word = next_word(&rest);
    if (strspn(word, "0123456789abcdef") != 16 || strlen(word) != 16 || !rest)
        return false;
    *ret_number = strtoull(word, &end, 16);
    return member_take(rest, ret_member);
}

void rcmi_job_write(uint64_t number, const struct rcmi_member *member,
                    char text[RCMI_MEMBER_TEXT]) {
    char mine[RCMI_MEMBER_TEXT];
    rcmi_member_write(member, mine);
    snprintf(text, RCMI_MEMBER_TEXT, "job %016" PRIx64 " %.370s", number, mine);
}

/* ---- Texts for messages -------------------------------------------------------------------- */

static void age_text(int64_t since, char text[32]) {
    int64_t s = (int64_t)time(NULL) - since;
    if (s < 120)
        snprintf(text, 32, "%" PRId64 " s", s < 0 ? 0 : s);
    else if (s < 7200)
        snprintf(text, 32, "%" PRId64 " min", s / 60);
    else if (s < 172800)
        snprintf(text, 32, "%" PRId64 " h", s / 3600);
    else
        snprintf(text, 32, "%" PRId64 " days", s / 86400);
}

const char *rcmi_member_people(const struct rcmi_member *m, int rank,
                               char text[RCMI_MEMBER_PEOPLE]) {
    char age[32];
    age_text(m->joined_at, age);
    snprintf(text, RCMI_MEMBER_PEOPLE, "rank %d of %d (pid %d on %s, joined %s ago)", rank,
             m->world_size, m->process.pid, m->process.host, age);
    return text;
}

/* ---- Refusals ------------------------------------------------------------------------------ */

rcm_status rcmi_refusal_check(struct rcmi_bytes value) {
    char text[RCMI_REFUSAL_TEXT], *rest = text + strlen(REFUSED);
    int64_t status, origin;
    if (value.len < strlen(REFUSED) || memcmp(value.data, REFUSED, strlen(REFUSED)) != 0)
        return RCM_OK;
    size_t len = value.len < sizeof text ? value.len : sizeof text - 1;
    memcpy(text, value.data, len);
    text[len] = '\0';
    if (!next_number(&rest, 1, 100, &status) ||
        !next_number(&rest, 0, RCMI_MAX_RANKS - 1, &origin) || !rest ||
        strcmp(rcm_status_name((rcm_status)-status), "RCM_?") == 0)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the store contains a refusal without a reason");
    for (char *c = rest; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    return rcmi_fail_origin((rcm_status)-status, (int)origin, "rank %d could not join: %.450s",
                            (int)origin, rest);
}

void rcmi_refusal_write(int rank, char text[RCMI_REFUSAL_TEXT]) {
    const struct rcmi_error *error = rcmi_last_error();
    snprintf(text, RCMI_REFUSAL_TEXT, REFUSED "%d %d %.500s", -(int)error->status, rank,
             error->text);
}
