/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: status pages (api/diagnosis/status_page.c), and their report for users
 * (diagnosis/hang.c). The input is several pages in sequence, like those of the ranks of one job,
 * with any contents; the first byte is their number.
 */
#include "fuzz.h"
#include <string.h>
#include "status_page.h"
#include "hang.h"

enum { RANKS_MAX = 48, NOW_S = 1000000 };

static void require_readable(const char *text, size_t cap, const char *what) {
    fuzz_require(memchr(text, 0, cap), what);
    for (const char *c = text; *c; c++)
        fuzz_require((*c >= ' ' && *c <= '~') || *c == '\n', what);
}

/* A row as inquiry.c and tools/info/live.c make it, of the first communicator. */
static bool row_read(const void *page, struct rcmi_hang_row *row) {
    const int64_t now_ns = (int64_t)NOW_S * 1000000000;
    struct rcmi_page_owner owner = {0};
    struct rcmi_page_label label = {0};
    struct rcmi_activity found;
    char ways[RCMI_PROTOCOLS_TEXT];
    row->host = "host";
    if (!rcmi_page_read(page, &owner))
        return false;
    fuzz_require(owner.rank >= 0 && owner.rank < owner.size && owner.pid > 0,
                 "an owner is a process and a rank");
    require_readable(rcmi_locality_text(owner.near.source), 100, "a reason can be read");
    fuzz_require(owner.sharing < RCMI_SHARINGS, "CPUs are shared or not");
    rcmi_protocol_write(&owner.protocol, ways);
    require_readable(ways, sizeof ways, "ways can be read");
    row->known = rcmi_page_read_comm(page, 0, now_ns, &label, &row->activity);
    if (!row->known)
        return false;
    fuzz_require(label.rank >= 0 && label.rank < label.size && label.epoch != 0,
                 "a communicator has this rank");
    fuzz_require(memchr(label.name, 0, sizeof label.name), "a name ends");
    fuzz_require(rcmi_page_find(page, label.epoch, label.rank, now_ns, &found),
                 "it is found again");
    row->pid = owner.pid;
    row->state = rcmi_activity_is_busy(&row->activity) ? RCMI_ROW_WAITS : RCMI_ROW_IDLE;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(struct rcmi_status_page) uint8_t page[RCMI_STATUS_PAGE_BYTES];
    static char text[RCMI_HANG_TABLE_BYTES];
    struct rcmi_hang_row rows[RANKS_MAX];
    struct fuzz_input in = {.data = data, .left = size};
    const int n = 1 + fuzz_u8(&in) % RANKS_MAX;
    const size_t each = in.left / (size_t)n;
    char sentence[300];
    bool any = false;
    memset(rows, 0, sizeof rows);
    for (int r = 0; r < n; r++) {
        size_t len;
        const uint8_t *bytes = fuzz_bytes(&in, each < sizeof page ? each : sizeof page, &len);
        memset(page, 0, sizeof page);
        if (len > 0)
            memcpy(page, bytes, len);
        any |= row_read(page, &rows[r]);
    }
    for (int r = 0; r < n; r++)
        rcmi_hang_follow(rows, n, r);
    for (size_t cap = 2; cap <= sizeof sentence; cap += 149) {
        const int rank = rcmi_hang_conclude(rows, n, sentence, cap);
        fuzz_require(rank >= -1 && rank < n, "the origin is a rank");
        require_readable(sentence, cap, "a conclusion can be read");
    }
    rcmi_hang_table(rows, n, text, sizeof text);
    require_readable(text, sizeof text, "a table can be read");
    fuzz_require(strlen(text) + 1 < sizeof text, "a table fits its room");
    fuzz_verdict = any ? FUZZ_ACCEPTED : FUZZ_REFUSED;
    return 0;
}
