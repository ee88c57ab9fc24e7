/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a rank is that shares CPUs with others, from its communicator's point of view: at home; on
 * a visit to another CPU, while it exchanges messages with a rank that shares its home
 * (p2p_place.c); or at the home of a visitor, to make room for it. Each visitor comes to one rank,
 * its match on the CPU it visits, which sees that on the visitor's status page and goes where the
 * visitor came from: so every CPU keeps as many ranks as it had. Without that the kernel would even
 * it out some time later, and ranks would go home again.
 *
 * Not here: going there (base/place.c), and which CPUs these are (group.c).
 */
#include "comm.h"
#include "page.h"

#define VISITOR_BUSY_NS INT64_C(2000000)
#define VISITOR_MAX_NS  INT64_C(100000000) /* no visit is told of so long before its end */
#define TOLD_NS         INT64_C(5000000)   /* so late it may be told that it goes on */

static void visit_tell(rcm_comm *comm) {
    const struct rcmi_place *place = &comm->place;
    const int64_t until = place->other != place->home ? place->other_until : 0;
    if (until != 0 && until - comm->away_told < TOLD_NS)
        return;
    if (until != comm->away_told)
        rcmi_page_away(comm->page, until);
    comm->away_told = until;
}

void rcmi_comm_visit(rcm_comm *comm, int cpu, int64_t busy_ns) {
    rcmi_place_visit(&comm->place, cpu, busy_ns);
    visit_tell(comm);
}

bool rcmi_comm_host_waits(const rcm_comm *comm) {
    const void *page = comm->host.world_rank < 0
                           ? NULL
                           : rcmi_node_peer_status_page(comm->engine->node, comm->host.world_rank);
    return page && rcmi_page_in_collective(page);
}

/* Another word than one's own is not trusted: at worst this rank is elsewhere for a while. */
static void comm_make_room(rcm_comm *comm) {
    const struct rcmi_match *match = &comm->match;
    const void *page = rcmi_node_peer_status_page(comm->engine->node, match->world_rank);
    const int64_t until = page ? rcmi_page_away_until(page) : 0;
    if (until == 0) {
        if (comm->makes_room)
            rcmi_place_visit(&comm->place, comm->place.home, VISITOR_BUSY_NS);
        comm->makes_room = false;
        return;
    }
    const int64_t now = rcmi_now_ns();
    if (now < comm->away_told || until <= now || until >= now + VISITOR_MAX_NS)
        return;
    rcmi_place_visit(&comm->place, match->cpu, VISITOR_BUSY_NS);
    comm->makes_room = true;
}

void rcmi_comm_place(rcm_comm *comm) {
    if (comm->match.world_rank >= 0)
        comm_make_room(comm);
    rcmi_place_return(&comm->place);
}
