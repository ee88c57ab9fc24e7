/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: status pages (api/page.c). The input is what a peer has in the page that we map; we
 * put it into a sentence for people.
 */
#include "fuzz.h"
#include <string.h>
#include "comm.h"
#include "page.h"
#include "../../transport/internal.h"

enum { RANKS = 3, EPOCH = 7 };

static _Alignas(8) uint8_t page[RCMI_STATUS_PAGE_BYTES];

static void describe(size_t cap, char *text) {
    static struct rcmi_link link;
    static _Atomic(struct rcmi_link *) links[RANKS];
    static struct rcmi_node node;
    static struct rcmi_engine engine;
    static struct rcm_comm comm;
    static int world_rank[RANKS] = {2, 1, 0};
    atomic_store(&link.status_page, page);
    atomic_store(&links[2], &link);
    node.links = links;
    node.config.nranks = RANKS;
    engine.node = &node;
    comm.engine = &engine;
    comm.size = RANKS;
    comm.epoch = EPOCH;
    comm.world_rank = world_rank;
    rcmi_page_describe(&comm, 0, text, cap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[160];
    memset(page, 0, sizeof page);
    if (size > sizeof page)
        size = sizeof page;
    if (size > 0)
        memcpy(page, data, size);
    for (size_t cap = 1; cap <= sizeof text; cap += 53) {
        memset(text, 'x', sizeof text);
        describe(cap, text);
        fuzz_require(memchr(text, 0, cap), "a description ends within its room");
        for (const char *c = text; *c; c++)
            fuzz_require(*c >= ' ' && *c <= '~', "a description can be read");
    }
    fuzz_verdict = text[0] ? FUZZ_ACCEPTED : FUZZ_REFUSED;
    return 0;
}
