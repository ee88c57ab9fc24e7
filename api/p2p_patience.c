/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small messages from point to point by slots of memory, where more ranks than CPUs are: two ranks
 * on different CPUs that spin for each other before they yield need no change of tasks, so a
 * message takes a tenth of a microsecond instead of several. The peer has its turn at the latest
 * when everybody on its CPU had one; who looks as long as that will see it.
 *
 * It is time thrown away where the peer waits for somebody whose turn would be here: in a ring of
 * messages, say, where all wait for their neighbours. So it is found out how long one waits either
 * way. That depends on what the others do as much as on oneself; therefore the other way is tried
 * for a row of messages, and by their number, which those who answer each other have in common.
 *
 * Not here: where the ranks are meanwhile (p2p_place.c).
 */
#include "clock.h"
#include "p2p_internal.h"

#define ROW          32   /* messages */
#define ROWS_BETWEEN 32   /* at most, of one way before one of the other */
#define SPUN         1.5f /* what counts a wait in which others might have used the CPU */
#define WAIT_MAX_NS  INT64_C(100000) /* longer ones are somebody's work, or the kernel's */

enum { YIELDS_AT_ONCE, SPINS_FIRST };

/* After 1, 3, 7, ... rows, and then now and then. */
static bool row_tries(uint32_t row) {
    return row < ROWS_BETWEEN ? (row & (row + 1)) == 0 && row > 0 : row % ROWS_BETWEEN == 0;
}

static void patience_next_row(struct rcmi_patience *patience, uint32_t row) {
    /* Never 0, which would say that nothing is known. */
    const float each = patience->waited / ROW * (patience->way == SPINS_FIRST ? SPUN : 1.0f);
    rcmi_faster_learn(&patience->ways, patience->way, each + 1.0f);
    patience->way = row_tries(row) ? !patience->ways.way : patience->ways.way;
    patience->row = row;
    patience->waited = 0;
}

struct rcmi_pause rcmi_p2p_budget(rcm_comm *comm, int peer) {
    struct rcmi_patience *patience = &comm->p2p->pairs[peer].patience;
    struct rcmi_pause pause = comm->engine->budget;
    if (!patience->apart)
        return pause;
    if (patience->row != patience->heard / ROW)
        patience_next_row(patience, patience->heard / ROW);
    if (patience->way == SPINS_FIRST && pause.spins == 0)
        pause.spins = comm->engine->patience;
    patience->since = rcmi_now_ns();
    return pause;
}

void rcmi_p2p_waited(rcm_comm *comm, int peer) {
    struct rcmi_patience *patience = &comm->p2p->pairs[peer].patience;
    if (!patience->apart)
        return;
    const int64_t ns = rcmi_now_ns() - patience->since;
    patience->waited += (float)(ns < WAIT_MAX_NS ? ns : WAIT_MAX_NS);
}
