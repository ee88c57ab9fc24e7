/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job that survives dead ranks: the others make a new communicator of the survivors and continue.
 * The launcher must not stop them:
 *
 *     ringcomm-run -n 4 --keep-going -- ./survive
 *
 * In round 30 rank 0 kills itself, in round 60 the rank that was 2 at the start.
 */
#include <ringcomm.h>
#include <signal.h>
#include <stdio.h>

#define ROUNDS 100

static int fail(const char *what) {
    fprintf(stderr, "survive: %s: %s\n", what, rcm_last_error());
    return 1;
}

/* After a failure all ranks continue with the lowest round of any rank. */
static rcm_status find_round(rcm_comm *comm, int32_t *round) {
    return rcm_all_reduce(comm, round, round, 1, RCM_INT32, RCM_MIN, NULL, NULL);
}

/* Replaces comm by a communicator of the survivors, until one works. */
static rcm_status survive(rcm_comm **comm, int32_t *round) {
    rcm_comm *rest;
    rcm_status status;
    do {
        status = rcm_comm_shrink(*comm, NULL, &rest);
        if (status != RCM_OK)
            return status;         /* the others continued without this rank, or did not arrive */
        (void)!rcm_destroy(*comm); /* returns the same error */
        *comm = rest;
        status = find_round(*comm, round);
    } while (status != RCM_OK);
    if (rcm_rank(*comm) == 0)
        printf("%d ranks go on with round %d\n", rcm_size(*comm), *round);
    return RCM_OK;
}

static void play_dead(const rcm_comm *comm, int32_t round) {
    const int me = rcm_world_rank(comm, rcm_rank(comm)); /* the number at the start */
    if ((round == 30 && me == 0) || (round == 60 && me == 2))
        raise(SIGKILL);
}

int main(void) {
    rcm_comm *comm;
    int32_t round = 0;
    float sum = 0;
    if (rcm_init(NULL, &comm) != RCM_OK)
        return fail("init");
    while (round < ROUNDS) {
        play_dead(comm, round);
        const float mine = 1;
        rcm_status status = rcm_all_reduce(comm, &mine, &sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL);
        if (status == RCM_OK)
            round++;
        else if (survive(&comm, &round) != RCM_OK)
            return fail("shrink");
    }
    printf("rank %d of %d: the sum is %g\n", rcm_rank(comm), rcm_size(comm), sum);
    return rcm_destroy(comm) == RCM_OK ? 0 : fail("destroy");
}
