/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A creation of a communicator as text and as a message, and which of its members have sent HELLO.
 * See creation.h. Not here: the calls (creation.c), and received messages (creation_receive.c).
 */
#include "creation.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Text ------------------------------------------------------------------------------------ */

/* The last of the consecutive ranks from `at` on. */
static int range_end(const int *ranks, int n, int at) {
    while (at + 1 < n && ranks[at + 1] == ranks[at] + 1)
        at++;
    return at;
}

void rcmi_creation_describe(const int *ranks, int n, uint64_t tag, char *text, size_t cap) {
    const size_t room = cap - sizeof(",..., tag 18446744073709551615");
    size_t used = (size_t)snprintf(text, cap, n == 1 ? "rank " : "ranks ");
    for (int i = 0; i < n; i++) {
        const char *comma = i > 0 ? "," : "";
        const int end = range_end(ranks, n, i);
        if (used + sizeof(",2147483647-2147483647") > room) {
            used += (size_t)snprintf(text + used, cap - used, "%s...", comma);
            break;
        }
        used += (size_t)snprintf(text + used, cap - used, "%s%d", comma, ranks[i]);
        if (end > i)
            used += (size_t)snprintf(text + used, cap - used, "%s%d", end == i + 1 ? "," : "-",
                                     ranks[end]);
        i = end;
    }
    if (tag != 0)
        snprintf(text + used, cap - used, ", tag %" PRIu64, tag);
}

const char *rcmi_creation_function(enum rcmi_creation_kind kind) {
    static const char *const functions[RCMI_CREATION_KINDS] = {
        "rcm_comm_subset", "rcm_comm_split", "rcm_comm_split_hosts", "rcm_comm_duplicate"};
    return functions[kind];
}

/* ---- Messages -------------------------------------------------------------------------------- */

bool rcmi_creation_same(const struct rcmi_creation *a, const struct rcmi_creation *b) {
    return a->parent == b->parent && a->tag == b->tag && a->hash == b->hash && a->kind == b->kind &&
           a->n == b->n;
}

bool rcmi_creating_is(const struct rcmi_creating *creating, const struct rcmi_creation *message) {
    const struct rcmi_creation_call *call = creating->call;
    return message->parent == call->parent->epoch && message->tag == call->tag &&
           message->kind == (uint32_t)call->kind && message->n == (uint32_t)call->n &&
           message->hash == creating->hash;
}

struct rcmi_creating *rcmi_creating_named(struct rcmi_creations *all,
                                          const struct rcmi_creation *message) {
    struct rcmi_creating *creating = all->head;
    while (creating && (creating->done || !rcmi_creating_is(creating, message)))
        creating = creating->next;
    return creating;
}

void rcmi_creating_fill(const struct rcmi_creating *creating, enum rcmi_creation_type type,
                        struct rcmi_creation *message) {
    const struct rcmi_creation_call *call = creating->call;
    *message = (struct rcmi_creation){.magic = RCMI_CREATION_MAGIC,
                                      .type = type,
                                      .parent = call->parent->epoch,
                                      .tag = call->tag,
                                      .hash = creating->hash,
                                      .kind = call->kind,
                                      .n = (uint32_t)call->n,
                                      .number = creating->number,
                                      .origin = -1};
}

void rcmi_creating_send(const struct rcmi_creations *all, const struct rcmi_creating *creating,
                        int rank, const struct rcmi_creation *message) {
    /* If nothing can be sent to a rank, it is gone, which is detected elsewhere. */
    (void)rcmi_node_send(all->config.node, creating->call->parent->world_rank[rank], message,
                         sizeof(*message));
}

/* ---- Hellos ---------------------------------------------------------------------------------- */

void rcmi_creating_note(struct rcmi_creating *creating, int rank,
                        const struct rcmi_creation_hello *hello) {
    if (!creating->attendance || creating->attendance[rank] != RCMI_ATTENDANCE_MISSING)
        return;
    creating->attendance[rank] = RCMI_ATTENDANCE_HERE;
    creating->missing--;
    if (hello->deadline < creating->deadline)
        creating->deadline = hello->deadline;
}

bool rcmi_hello_take(struct rcmi_creations *all, int world, const struct rcmi_creation *name,
                     uint64_t *ret_number) {
    struct rcmi_creation_hello **at = &all->hellos[world];
    while (*at && !rcmi_creation_same(&(*at)->message, name))
        at = &(*at)->next;
    struct rcmi_creation_hello *hello = *at;
    if (!hello)
        return false;
    *at = hello->next;
    *ret_number = hello->message.number;
    free(hello);
    return true;
}

bool rcmi_creating_take(struct rcmi_creations *all, const struct rcmi_creating *creating, int rank,
                        uint64_t *ret_number) {
    struct rcmi_creation name;
    rcmi_creating_fill(creating, RCMI_CREATION_HELLO, &name);
    return rcmi_hello_take(all, creating->call->parent->world_rank[rank], &name, ret_number);
}
