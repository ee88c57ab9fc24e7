/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of another wire version in the store: rcm_init of all others fails with an error that
 * contains the rank, its host and both versions. The test sets that rank's keys in the store, with
 * more fields than this version knows.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include "jobs.h"
#include "wire_version.h"

/* The rank's entry about itself; words: after its host. */
static void member_write(char text[300], int size, const char *words) {
    snprintf(text, 300, "member 1 joined %d 4711 1 5 0 - %lld node99%s", size,
             (long long)time(NULL), words);
}

/* Publishes the other version's data: a head, and nothing that this version can read. Then it finds
 * the mismatch like the others, and leaves. */
static void publish(rcm_store *store, int rank, int size) {
    char key[60], text[500] = "wire=99 host=node99";
    int64_t arrived = 0;
    memset(text + 96, 0xee, sizeof text - 96);
    snprintf(key, sizeof key, "ringcomm/0/1/rank/%d", rank);
    CHECK(rcm_store_set(store, key, text, rank % 2 ? 96 : sizeof text) == RCM_OK &&
              rcm_store_add(store, "ringcomm/0/1/rank/arrived", 1, &arrived) == RCM_OK,
          "%s", rcm_last_error());
    snprintf(key, sizeof key, "ringcomm/0/1/gone/%d", rank);
    CHECK(rcm_store_set(store, key, "1", 1) == RCM_OK, "%s", rcm_last_error());
    if (arrived == size)
        CHECK(rcm_store_set(store, "ringcomm/0/1/rank/all", "1", 1) == RCM_OK, "%s",
              rcm_last_error());
}

/* Rank 0 names the job; any other rank waits for that. words: after the host in its entry. */
static void publish_member(rcm_store *store, int rank, int size, const char *words) {
    const char *const job_key = "ringcomm/0/1/job";
    char key[60], member[300], job[340];
    member_write(member, size, words);
    snprintf(key, sizeof key, "ringcomm/0/member/%d", rank);
    snprintf(job, sizeof job, "job 0123456789abcdef %s", member);
    CHECK(rcm_store_set(store, key, member, strlen(member)) == RCM_OK, "%s", rcm_last_error());
    if (rank == 0)
        CHECK(rcm_store_set(store, job_key, job, strlen(job)) == RCM_OK, "%s", rcm_last_error());
    else
        CHECK(rcm_store_wait(store, &job_key, 1, INIT_MS) == RCM_OK, "%s", rcm_last_error());
}

static void check_rejected(rcm_store *store) {
    void *text;
    size_t len;
    CHECK(rcm_store_get(store, "ringcomm/0/1/rank/all", INIT_MS, &text, &len) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(strncmp(text, "refused 9 ", 10) == 0 && strstr(text, "wire version"),
          "rank 0 of the other version got: %s", (char *)text);
    free(text);
}

static void run(int rank, int size, const char *words, const char *version) {
    const int port = free_port();
    const pid_t pid = store_serve(port);
    struct job job = {.url = url, .number = 1, .size = size};
    char who[40], client[100], own[60];
    rcm_store *store;
    snprintf(own, sizeof own, " has %d: use the same version", RCMI_WIRE_VERSION);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=0", port);
    snprintf(client, sizeof client, "%s", url);
    snprintf(who, sizeof who, rank == 0 ? "rank 0 of %d (pid 4711 on node99" : "rank %d on node99",
             rank == 0 ? size : rank);
    printf("rank %d of %d, member text:%s\n", rank, size, words);
    job.turn = shared_memory(sizeof *job.turn);
    for (int r = 0; r < size; r++)
        job.turns[r] = r == rank ? 0 : -1; /* -1: starts at once; 0: does not start */
    job_start(&job);
    CHECK(rcm_store_open(client, INIT_MS, &store) == RCM_OK, "%s", rcm_last_error());
    publish_member(store, rank, size, words);
    if (rank == 0)
        check_rejected(store);
    else
        publish(store, rank, size);
    job_wait(&job);
    rcm_store_close(store);
    for (int r = 0; r < size; r++) {
        if (r == rank)
            continue;
        job_refused(&job, r, r, who, version, own);
        CHECK(job.outcome[r].status == RCM_ERR_MISMATCH, "rank %d got %d", r,
              job.outcome[r].status);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void) {
    static const char later[] = " wire=99 more=words to=come";
    setenv("RINGCOMM_LOG", "error", 1);
    unsetenv("RINGCOMM_JOB_ID");
    for (int size = 2; size <= 3; size++) {
        for (int rank = 1; rank < size; rank++)
            run(rank, size, later, "has wire version 99, rank ");
        run(0, size, later, "has wire version 99, rank ");
        run(0, size, "", "has wire version below 8, rank ");
    }
    return errors > 0;
}
