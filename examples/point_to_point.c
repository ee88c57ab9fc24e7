/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks, blocking and asynchronous. The ranks find each other by the
 * environment or by a URL. Next programs: ring_all_reduce.c and mnist_sgd.c.
 *
 *     ringcomm-run -n 2 -- ./point_to_point
 *     RANK=0 WORLD_SIZE=2 ./point_to_point tcp://node1:23456 &      and RANK=1 elsewhere
 *     RANK=0 WORLD_SIZE=2 ./point_to_point file:///shared/file &
 */
#include <err.h>
#include <stdio.h>
#include <ringcomm.h>

static int rank;

static void check(rcm_status status) {
    if (status != RCM_OK)
        errx(1, "rank %d: %s: %s", rank, rcm_status_name(status), rcm_last_error());
}

static void blocking(rcm_comm *comm) {
    float tensor = 0;
    if (rank == 0) {
        tensor += 1;
        check(rcm_send(comm, &tensor, 1, RCM_FLOAT32, 1, 0, NULL, NULL));
    } else if (rank == 1) {
        check(rcm_recv(comm, &tensor, 1, RCM_FLOAT32, 0, 0, NULL, NULL));
    }
    printf("Rank %d has data %g\n", rank, tensor);
}

/* Neither rank uses its tensor before the work is complete. */
static void not_blocking(rcm_comm *comm) {
    float tensor = 0;
    rcm_work *work = NULL;
    if (rank == 0) {
        tensor += 2;
        check(rcm_isend(comm, &tensor, 1, RCM_FLOAT32, 1, 0, &work));
        printf("Rank 0 started sending\n");
    } else if (rank == 1) {
        check(rcm_irecv(comm, &tensor, 1, RCM_FLOAT32, 0, 0, &work));
        printf("Rank 1 started receiving\n");
    }
    if (work)
        check(rcm_work_wait(work, -1));
    rcm_work_free(work);
    printf("Rank %d has data %g\n", rank, tensor);
}

static void sum(rcm_comm *comm) {
    float tensor = 1;
    check(rcm_all_reduce(comm, &tensor, &tensor, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    printf("Rank %d has sum %g\n", rank, tensor);
}

int main(int argc, char **argv) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm;
    options.url = argc > 1 ? argv[1] : NULL; /* NULL: from the environment */
    check(rcm_init(&options, &comm));
    rank = rcm_rank(comm);
    if (rcm_size(comm) < 2)
        errx(1, "two ranks are needed: ringcomm-run -n 2 -- %s", argv[0]);
    blocking(comm);
    not_blocking(comm);
    sum(comm);
    check(rcm_destroy(comm));
    return 0;
}
