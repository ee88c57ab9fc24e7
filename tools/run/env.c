/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.c: see env.h. torchrun's variables are those that its documentation lists for workers. torch
 * also reads TORCHELASTIC_RESTART_COUNT if TORCHELASTIC_USE_AGENT_STORE is True.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env.h"

#define ENV_SET_MAX 32

struct env_list {
    char *set[ENV_SET_MAX]; /* "NAME=value" */
    size_t n;
    bool failed;
};

static void env_set(struct env_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void env_set(struct env_list *list, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (list->n == ENV_SET_MAX || vasprintf(&list->set[list->n], format, args) < 0)
        list->failed = true;
    else
        list->n++;
    va_end(args);
}

static void env_set_torchrun(struct env_list *list, const struct run_job *job, int rank) {
    env_set(list, "RANK=%d", rank);
    env_set(list, "WORLD_SIZE=%d", job->nranks);
    env_set(list, "LOCAL_RANK=%d", rank);
    env_set(list, "LOCAL_WORLD_SIZE=%d", job->nranks);
    env_set(list, "GROUP_RANK=0");
    env_set(list, "GROUP_WORLD_SIZE=1");
    env_set(list, "ROLE_NAME=default");
    env_set(list, "ROLE_RANK=%d", rank);
    env_set(list, "ROLE_WORLD_SIZE=%d", job->nranks);
    env_set(list, "MASTER_ADDR=127.0.0.1");
    env_set(list, "MASTER_PORT=%d", job->port);
    env_set(list, "TORCHELASTIC_USE_AGENT_STORE=True");
    env_set(list, "TORCHELASTIC_RESTART_COUNT=0");
    env_set(list, "TORCHELASTIC_MAX_RESTARTS=0");
    env_set(list, "TORCHELASTIC_RUN_ID=%s", job->run_id);
    if (!getenv("OMP_NUM_THREADS"))
        env_set(list, "OMP_NUM_THREADS=1");
}

static void env_set_ringcomm(struct env_list *list, const struct run_job *job, int rank) {
    env_set(list, "RINGCOMM_RANK=%d", rank);
    env_set(list, "RINGCOMM_WORLD_SIZE=%d", job->nranks);
    env_set(list, "RINGCOMM_LOCAL_RANK=%d", rank);
    env_set(list, "RINGCOMM_LOCAL_WORLD_SIZE=%d", job->nranks);
    env_set(list, "RINGCOMM_JOB_ID=%s", job->run_id);
    env_set(list, "RINGCOMM_URL=tcp://127.0.0.1:%d?server=0", job->port);
    if (job->near)
        env_set(list, "RINGCOMM_NEAR=1");
}

/* Whether an inherited "NAME=value" is replaced by one of the list. */
static bool env_replaced(const struct env_list *list, const char *entry) {
    const char *equals = strchr(entry, '=');
    size_t len = equals ? (size_t)(equals - entry) + 1 : 0;
    for (size_t i = 0; i < list->n && len > 0; i++)
        if (strncmp(list->set[i], entry, len) == 0)
            return true;
    return false;
}

char **run_env_make(const struct run_job *job, int rank) {
    struct env_list list = {0};
    size_t inherited = 0, n = 0;
    env_set_torchrun(&list, job, rank);
    env_set_ringcomm(&list, job, rank);
    while (environ && environ[inherited])
        inherited++;
    char **env = calloc(inherited + list.n + 1, sizeof(*env));
    for (size_t i = 0; env && i < inherited; i++) {
        if (env_replaced(&list, environ[i]))
            continue;
        env[n] = strdup(environ[i]);
        if (!env[n++])
            list.failed = true;
    }
    for (size_t i = 0; i < list.n; i++) {
        if (env)
            env[n++] = list.set[i];
        else
            free(list.set[i]);
    }
    if (env && list.failed) {
        for (size_t i = 0; i < n; i++)
            free(env[i]);
        free(env);
        env = NULL;
    }
    return env;
}

void run_env_free(char **env) {
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}
