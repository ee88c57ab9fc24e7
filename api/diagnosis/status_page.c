/* SPDX-License-Identifier: BSD-3-Clause */
/* Status pages: see status_page.h. */
#include "status_page.h"
#include "clock.h"
#include "operator.h"
#include "error.h"
#include "process.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct rcmi_status_page) == RCMI_STATUS_PAGE_BYTES, "fills its page");

#define PUT(field, value) atomic_store_explicit(&page->field, value, memory_order_relaxed)
#define GET(field)        atomic_load_explicit(&page->field, memory_order_relaxed)

/* ---- Writing --------------------------------------------------------------------------------- */

static void page_init_protocol(struct rcmi_status_page *page,
                               const struct rcmi_protocol *protocol) {
#define PUT_RANGE(name, help)                                                                      \
    PUT(protocol.name##_from, protocol->name.from);                                                \
    PUT(protocol.name##_to, protocol->name.to);
    RCMI_PROTOCOL_MAP(PUT_RANGE)
#undef PUT_RANGE
}

void rcmi_page_init(struct rcmi_status_page *page, const struct rcmi_page_settings *settings) {
    PUT(page_bytes, (uint32_t)sizeof(*page));
    PUT(pid, getpid());
    PUT(rank, settings->rank);
    PUT(size, settings->size);
    PUT(job, settings->job);
    PUT(sharing, settings->sharing);
    PUT(time_ns, rcmi_process_time_ns());
    PUT(ahead_ns, rcmi_clock_day_ns() - rcmi_now_ns());
    PUT(near_source, (uint32_t)settings->near.source);
    PUT(near_cache_cpu, settings->near.cache_cpu);
    PUT(near_ranks, settings->near.ranks);
    page_init_protocol(page, settings->protocol);
    PUT(magic, RCMI_PAGE_MAGIC);
}

static struct rcmi_page_comm *page_find_free(struct rcmi_status_page *page) {
    for (int i = 0; i < RCMI_PAGE_COMMS; i++)
        if (atomic_load_explicit(&page->comms[i].epoch, memory_order_relaxed) == 0)
            return &page->comms[i];
    return NULL;
}

static void entry_init(struct rcmi_page_comm *page, const struct rcmi_members *members,
                       const char *name) {
    PUT(rank, members->rank);
    PUT(size, members->size);
    rcmi_page_name(page, name);
    PUT(called, 0); /* the entry may have been another communicator's */
    PUT(sequence, 0);
    PUT(shown, 0);
    PUT(failed, RCM_OK);
    PUT(parting, 0);
    PUT(transfer, RCMI_TRANSFER_NONE);
    PUT(waits_for, -1);
    for (int i = 0; i < RCMI_TRANSPORTS_MAX; i++) {
        PUT(traffic[i].sent, 0);
        PUT(traffic[i].sent_bytes, 0);
        PUT(traffic[i].received, 0);
        PUT(traffic[i].received_bytes, 0);
    }
    PUT(epoch, members->epoch);
}

struct rcmi_page_comm *rcmi_page_take(struct rcmi_status_page *page,
                                      const struct rcmi_members *members, const char *name) {
    struct rcmi_page_comm *comm = page_find_free(page);
    if (!comm)
        comm = aligned_alloc(_Alignof(struct rcmi_status_page), sizeof(*comm));
    if (comm)
        entry_init(comm, members, name);
    else
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
    return comm;
}

void rcmi_page_give(struct rcmi_status_page *page, struct rcmi_page_comm *comm) {
    if (comm >= page->comms && comm < page->comms + RCMI_PAGE_COMMS)
        atomic_store_explicit(&comm->epoch, 0, memory_order_relaxed);
    else
        free(comm);
}

void rcmi_page_name(struct rcmi_page_comm *page, const char *name) {
    uint64_t words[RCM_NAME_MAX / 8] = {0};
    strncpy((char *)words, name, sizeof(words) - 1);
    for (int i = 0; i < RCM_NAME_MAX / 8; i++)
        PUT(name[i], words[i]);
}

void rcmi_page_oldest(struct rcmi_page_comm *page, uint64_t sequence,
                      const struct rcmi_bind *bind) {
    if (bind) {
        PUT(count, bind->reported_count);
        PUT(collective, (int32_t)bind->collective);
        PUT(dtype, (int32_t)bind->dtype);
        PUT(op, (int32_t)bind->op);
        PUT(root, bind->plan->root);
    }
    PUT(sequence, sequence);
}

void rcmi_page_called(struct rcmi_page_comm *page, uint64_t sequence,
                      enum rcm_collective collective) {
    PUT(called, sequence);
    PUT(called_as, (int32_t)collective);
}

void rcmi_page_show(struct rcmi_page_comm *page, uint64_t sequence, const struct rcmi_bind *bind,
                    const struct rcmi_run_wait *wait, int64_t moved_ns) {
    struct rcmi_operator_identity created = {.name = ""};
    uint64_t algorithm[3] = {0}, op_name[3];
    strncpy((char *)algorithm, bind->plan->algorithm, sizeof(algorithm) - 1);
    (void)rcmi_operator_identify(bind->op, &created);
    memcpy(op_name, created.name, sizeof(op_name));
    for (int i = 0; i < 3; i++) {
        PUT(algorithm[i], algorithm[i]);
        PUT(op_name[i], op_name[i]);
    }
    PUT(waits_for, wait->peer);
    PUT(step, wait->step);
    PUT(nsteps, wait->nsteps);
    PUT(done, wait->bytes);
    PUT(moved_ns, moved_ns);
    PUT(shown, sequence);
}

void rcmi_page_show_transfer(struct rcmi_page_comm *page, enum rcmi_transfer_kind kind,
                             const struct rcmi_page_transfer *transfer, int64_t moved_ns) {
    if (transfer) {
        PUT(peer, transfer->peer);
        PUT(tag, transfer->tag);
        PUT(bytes, transfer->bytes);
        PUT(transfer_ns, moved_ns);
    }
    PUT(transfer, kind);
}

void rcmi_page_linked(struct rcmi_status_page *page, const char *transport) {
    for (int i = 0; rcmi_transports[i]; i++)
        if (strcmp(rcmi_transports[i]->name, transport) == 0)
            atomic_fetch_or_explicit(&page->rows, (uint64_t)1 << i, memory_order_relaxed);
}

void rcmi_page_drives_here(struct rcmi_status_page *page) {
    const int32_t cpu = 1 + sched_getcpu();
    if (GET(cpu) != cpu) /* read by peers, which keep the line as long as it does not change */
        PUT(cpu, cpu);
}

void rcmi_page_part(struct rcmi_page_comm *page) {
    PUT(parting, 1);
}

void rcmi_page_fail(struct rcmi_page_comm *page, rcm_status status) {
    PUT(failed, status);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static uint64_t milliseconds_since(int64_t then_ns, int64_t now_ns) {
    return then_ns > 0 && then_ns < now_ns ? (uint64_t)(now_ns - then_ns) / 1000000 : 0;
}

static void page_read_shown(const struct rcmi_page_comm *page, int64_t now_ns,
                            struct rcmi_activity *a) {
    uint64_t algorithm[3], op_name[3];
    for (int i = 0; i < 3; i++) {
        algorithm[i] = GET(algorithm[i]);
        op_name[i] = GET(op_name[i]);
    }
    memcpy(a->algorithm, algorithm, sizeof(a->algorithm));
    memcpy(a->op_name, op_name, sizeof(a->op_name));
    a->waits_for = GET(waits_for);
    a->step = GET(step);
    a->nsteps = GET(nsteps);
    a->done = GET(done);
    a->waited_ms = milliseconds_since(GET(moved_ns), now_ns);
}

static void page_read_activity(const struct rcmi_page_comm *page, int64_t now_ns,
                               struct rcmi_activity *a) {
    *a = (struct rcmi_activity){
        .called = GET(called),
        .sequence = GET(sequence),
        .count = GET(count),
        .collective = GET(collective),
        .dtype = GET(dtype),
        .op = GET(op),
        .root = GET(root),
        .waits_for = -1,
        .called_as = GET(called_as),
        .tag = GET(tag),
        .bytes = GET(bytes),
        .transfer = (int32_t)GET(transfer),
        .peer = GET(peer),
        .parting = GET(parting),
        .failed = GET(failed),
    };
    if (a->sequence > 0 && GET(shown) == a->sequence)
        page_read_shown(page, now_ns, a);
    else if (a->sequence == 0 && a->transfer != RCMI_TRANSFER_NONE) {
        a->waits_for = a->peer;
        a->waited_ms = milliseconds_since(GET(transfer_ns), now_ns);
    }
}

static void page_read_protocol(const struct rcmi_status_page *page, struct rcmi_page_owner *owner) {
#define GET_RANGE(name, help)                                                                      \
    owner->protocol.name = (struct rcmi_range){GET(protocol.name##_from), GET(protocol.name##_to)};
    RCMI_PROTOCOL_MAP(GET_RANGE)
#undef GET_RANGE
    owner->sharing = GET(sharing) == RCMI_OVERSUBSCRIBED ? RCMI_OVERSUBSCRIBED : RCMI_ROOMY;
}

bool rcmi_page_drove_here(const void *bytes) {
    const struct rcmi_status_page *page = bytes;
    const int32_t cpu = GET(cpu);
    return cpu > 0 && cpu == 1 + sched_getcpu();
}

bool rcmi_page_read(const void *bytes, struct rcmi_page_owner *ret_owner) {
    const struct rcmi_status_page *page = bytes;
    const struct rcmi_page_owner owner = {
        .pid = GET(pid), .rank = GET(rank), .size = GET(size), .job = GET(job), .rows = GET(rows)};
    if (GET(magic) != RCMI_PAGE_MAGIC || GET(page_bytes) != sizeof(*page) || owner.pid <= 0 ||
        owner.rank < 0 || owner.rank >= owner.size)
        return false;
    *ret_owner = owner;
    ret_owner->near = (struct rcmi_page_near){
        .source = GET(near_source), .cache_cpu = GET(near_cache_cpu), .ranks = GET(near_ranks)};
    page_read_protocol(page, ret_owner);
    return true;
}

/* Tables have space for a number of bytes, which may end within a multibyte character. */
static void name_clean(char *name) {
    for (; *name; name++)
        if (*name < ' ' || *name > '~')
            *name = '?';
}

static bool entry_read_label(const struct rcmi_page_comm *page, struct rcmi_page_label *ret_label) {
    uint64_t words[RCM_NAME_MAX / 8];
    *ret_label =
        (struct rcmi_page_label){.epoch = GET(epoch), .rank = GET(rank), .size = GET(size)};
    for (int i = 0; i < RCM_NAME_MAX / 8; i++)
        words[i] = GET(name[i]);
    memcpy(ret_label->name, words, sizeof(words));
    ret_label->name[RCM_NAME_MAX - 1] = '\0';
    name_clean(ret_label->name);
    return ret_label->epoch != 0 && ret_label->rank >= 0 && ret_label->rank < ret_label->size;
}

/* The current time by the page's clock. Another time namespace's clock has an offset; the time of
 * day, which is the same in all, determines it. */
static int64_t page_now(const struct rcmi_status_page *page, int64_t now_ns) {
    if (GET(time_ns) == rcmi_process_time_ns())
        return now_ns;
    int64_t now;
    return __builtin_sub_overflow(rcmi_clock_day_ns(), GET(ahead_ns), &now) ? 0 : now;
}

bool rcmi_page_read_comm(const void *bytes, int i, int64_t now_ns,
                         struct rcmi_page_label *ret_label, struct rcmi_activity *ret_activity) {
    const struct rcmi_status_page *page = bytes;
    if (!entry_read_label(&page->comms[i], ret_label))
        return false;
    page_read_activity(&page->comms[i], page_now(page, now_ns), ret_activity);
    rcmi_activity_sanitize(ret_activity, ret_label->size);
    return true;
}

void rcmi_page_read_traffic(const void *bytes, int i, struct rcmi_page_traffic *ret_traffic) {
    const struct rcmi_page_comm *page = &((const struct rcmi_status_page *)bytes)->comms[i];
    *ret_traffic = (struct rcmi_page_traffic){0};
    for (int row = 0; row < RCMI_TRANSPORTS_MAX; row++) {
        ret_traffic->sent_bytes += GET(traffic[row].sent_bytes);
        ret_traffic->received_bytes += GET(traffic[row].received_bytes);
    }
}

bool rcmi_page_find(const void *bytes, uint64_t epoch, int rank, int64_t now_ns,
                    struct rcmi_activity *ret_activity) {
    struct rcmi_page_owner owner;
    struct rcmi_page_label label;
    if (!rcmi_page_read(bytes, &owner))
        return false;
    for (int i = 0; i < RCMI_PAGE_COMMS; i++)
        if (rcmi_page_read_comm(bytes, i, now_ns, &label, ret_activity) && label.epoch == epoch &&
            label.rank == rank)
            return true;
    return false;
}

void rcmi_page_read_own(const struct rcmi_page_comm *page, int64_t now_ns,
                        struct rcmi_activity *ret_activity) {
    page_read_activity(page, now_ns, ret_activity);
    rcmi_activity_sanitize(ret_activity, GET(size));
}
