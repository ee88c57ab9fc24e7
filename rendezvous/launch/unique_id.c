/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unique ids. The process that makes an id serves a store; the id contains the store's addresses
 * and token (launch_meet.h). The process owns the store until a rank in it uses the id; from then
 * on that rank owns it.
 *
 *      8 bytes   "rcm-id", 0, version      1         number of addresses
 *      8         token                     17 each   4 or 6, and the address
 *      2         port, big-endian          rest      0
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "auth.h"
#include "entry.h"
#include "error.h"
#include "fork.h"
#include "interfaces.h"
#include "launch_meet.h"
#include "settings.h"
#include "store.h"
#include "url.h"

#define VERSION       1
#define ADDRESSES_MAX 6
#define TOKEN_TEXT    17

struct id_address {
    unsigned char family; /* 4 or 6 */
    unsigned char bytes[16];
};
struct id {
    char magic[7]; /* "rcm-id" */
    unsigned char version;
    unsigned char token[8], port[2], n;
    struct id_address addresses[ADDRESSES_MAX];
};
_Static_assert(sizeof(struct id) <= RCM_UNIQUE_ID_BYTES, "struct id exceeds rcm_unique_id");

/* ---- Addresses ------------------------------------------------------------------------------- */

static void id_add(struct id *id, const struct rcmi_sockaddr *addr) {
    struct id_address *address = &id->addresses[id->n++];
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, &addr->addr, sizeof in);
    memcpy(&in6, &addr->addr, sizeof in6);
    const bool v4 = addr->addr.ss_family == AF_INET;
    address->family = v4 ? 4 : 6;
    memcpy(address->bytes, v4 ? (const void *)&in.sin_addr : &in6.sin6_addr,
           v4 ? sizeof in.sin_addr : sizeof in6.sin6_addr);
}

/* Adds the addresses at which others reach this machine; if there are none, loopback. */
static rcm_status id_add_all(struct id *id) {
    const char *iface = rcmi_setting("RINGCOMM_IFACE");
    struct rcmi_interface *all = NULL;
    int count = 0;
    rcm_status status = rcmi_interfaces(iface, &all, &count);
    if (status != RCM_OK)
        return status;
    rcmi_interfaces_prefer(all, count, NULL);
    for (int i = 0; i < count && id->n < ADDRESSES_MAX; i++)
        if (iface[0] || id->n == 0 || !rcmi_sockaddr_loopback(&all[i].addr))
            id_add(id, &all[i].addr);
    free(all);
    return id->n > 0 ? RCM_OK
                     : rcmi_fail(RCM_ERR_CONFIG, 0, "no active network interface has an address");
}

/* ---- The ids of this process ----------------------------------------------------------------- */

#define ENDED_MAX 1000 /* used-up ids that are remembered, the last ones */

enum served_state { SERVED_NONE, SERVED_FREE, SERVED_TAKEN, SERVED_ENDED };

struct served {
    struct served *next;
    char token[TOKEN_TEXT];
    enum served_state state;
    uint32_t generation; /* of the process that made the id (base/fork.h); may be the parent's */
    rcm_store *store;    /* NULL once closed; owned by the rank that took it */
};
static struct served *all_served;                               /* the newest first */
static pthread_mutex_t served_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all_served */

/* Frees all but the last ENDED_MAX used-up ids. Call with served_lock held. */
static void served_trim(void) {
    int ended = 0;
    for (struct served **at = &all_served; *at;) {
        struct served *s = *at;
        if (s->state == SERVED_ENDED && ++ended > ENDED_MAX) {
            *at = s->next;
            free(s);
        } else {
            at = &s->next;
        }
    }
}

/* Marks the store's id as used up. */
static void unique_id_closed(const rcm_store *store) {
    pthread_mutex_lock(&served_lock);
    for (struct served *s = all_served; s; s = s->next)
        if (s->store == store) {
            s->state = SERVED_ENDED;
            s->store = NULL;
        }
    served_trim();
    pthread_mutex_unlock(&served_lock);
}

static rcm_status served_put(const char *token, rcm_store *store) {
    struct served *served = malloc(sizeof *served);
    if (!served)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a unique id");
    *served =
        (struct served){.state = SERVED_FREE, .generation = rcmi_fork_watch(), .store = store};
    memcpy(served->token, token, TOKEN_TEXT);
    pthread_mutex_lock(&served_lock);
    served->next = all_served;
    all_served = served;
    store->closing = unique_id_closed;
    pthread_mutex_unlock(&served_lock);
    return RCM_OK;
}

/* The state of an id. SERVED_FREE: the caller now owns the store. */
static enum served_state served_take(const char *token, rcm_store **ret_store) {
    enum served_state state = SERVED_NONE;
    pthread_mutex_lock(&served_lock);
    for (struct served *s = all_served; s && state == SERVED_NONE; s = s->next) {
        if (!rcmi_fork_is_maker(s->generation) || strcmp(s->token, token) != 0)
            continue;
        state = s->state;
        if (state == SERVED_FREE) {
            *ret_store = s->store;
            s->state = SERVED_TAKEN;
        }
    }
    pthread_mutex_unlock(&served_lock);
    return state;
}

/* ---- Making an id ---------------------------------------------------------------------------- */

static void token_text(const struct id *id, char text[TOKEN_TEXT]) {
    for (int i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", id->token[i]);
}

static rcm_status id_serve(struct id *id, rcm_store **ret_store) {
    char token[TOKEN_TEXT], *secret = NULL;
    struct rcmi_url url;
    rcm_status status = rcmi_secret(&secret);
    token_text(id, token);
    if (status == RCM_OK)
        status = rcmi_meet_serve_anywhere(token, secret, rcmi_call_deadline(), ret_store);
    free(secret);
    if (status != RCM_OK)
        return status;
    status = rcmi_url_parse((*ret_store)->url, &url);
    if (status == RCM_OK) {
        id->port[0] = (unsigned char)(url.port >> 8);
        id->port[1] = (unsigned char)url.port;
        rcmi_url_fini(&url);
        status = served_put(token, *ret_store);
    }
    if (status != RCM_OK)
        rcm_store_close(*ret_store);
    return status;
}

static rcm_status id_get(struct rcm_unique_id *ret_id) {
    RCMI_ENTRY;
    struct id id = {.magic = "rcm-id", .version = VERSION};
    rcm_store *store = NULL;
    if (!ret_id)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_id is NULL");
    rcm_status status = rcmi_random(id.token, sizeof id.token);
    if (status == RCM_OK)
        status = id_add_all(&id);
    if (status == RCM_OK)
        status = id_serve(&id, &store);
    if (status != RCM_OK)
        return status;
    memset(ret_id, 0, sizeof *ret_id);
    memcpy(ret_id->bytes, &id, sizeof id);
    return RCM_OK;
}

rcm_status rcm_unique_id_get(struct rcm_unique_id *ret_id) {
    struct rcmi_error *before = rcmi_errors_begin();
    return rcmi_errors_end(before, id_get(ret_id));
}

/* ---- Using an id ----------------------------------------------------------------------------- */

/* name: the argument's name, for errors. */
static rcm_status id_read(const struct rcm_unique_id *given, const char *name, struct id *id) {
    memcpy(id, given->bytes, sizeof *id);
    if (memcmp(id->magic, "rcm-id", sizeof id->magic) != 0 || id->n == 0 || id->n > ADDRESSES_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "%s is not an id of rcm_unique_id_get: it begins with byte 0x%02x", name,
                         (unsigned char)given->bytes[0]);
    if (id->version != VERSION)
        return rcmi_fail(RCM_ERR_MISMATCH, 0, "%s has version %d, this library reads version %d",
                         name, id->version, VERSION);
    return RCM_OK;
}

static char *address_url(const struct id *id, int i) {
    char host[INET6_ADDRSTRLEN];
    const struct id_address *address = &id->addresses[i];
    const int family = address->family == 4 ? AF_INET : AF_INET6;
    return inet_ntop(family, address->bytes, host, sizeof host)
               ? rcmi_url_tcp(host, id->port[0] << 8 | id->port[1])
               : NULL;
}

static rcm_status id_join(const struct id *id, const char *token, const char *secret,
                          rcmi_deadline deadline, rcm_store **ret_store) {
    struct rcmi_meet_addresses addresses = {.certain = true};
    char *urls[ADDRESSES_MAX] = {NULL};
    for (int i = 0; i < id->n; i++)
        if ((urls[i] = address_url(id, i)))
            addresses.url[addresses.n++] = urls[i];
    const rcm_status status = addresses.n > 0
                                  ? rcmi_meet_join(&addresses, token, secret, deadline, ret_store)
                                  : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for addresses");
    for (int i = 0; i < ADDRESSES_MAX; i++)
        free(urls[i]);
    return status;
}

static rcm_status id_take(const struct rcm_unique_id *given, struct id *id,
                          char token[TOKEN_TEXT]) {
    const rcm_status status = id_read(given, "options->unique_id", id);
    if (status == RCM_OK)
        token_text(id, token);
    return status;
}

rcm_status rcmi_unique_id_job(const struct rcm_unique_id *given, char job_id[RCMI_JOB_ID_TEXT]) {
    struct id id;
    char token[TOKEN_TEXT];
    const rcm_status status = id_take(given, &id, token);
    if (status != RCM_OK)
        return status;
    snprintf(job_id, RCMI_JOB_ID_TEXT, "unique-id-%s", token);
    return RCM_OK;
}

rcm_status rcmi_unique_id_open(const struct rcm_unique_id *given, const char *secret,
                               rcmi_deadline deadline, bool *ret_serves, rcm_store **ret_store) {
    struct id id;
    char token[TOKEN_TEXT];
    const rcm_status status = id_take(given, &id, token);
    if (status != RCM_OK)
        return status;
    const enum served_state state = served_take(token, ret_store);
    *ret_serves = state == SERVED_FREE;
    if (state == SERVED_FREE)
        return RCM_OK;
    if (state == SERVED_ENDED)
        return rcmi_fail(
            RCM_ERR_INVALID, 0,
            "options.unique_id is used up: this process made it, and the rcm_init that used it "
            "has failed or its communicator has ended; make a new one with rcm_unique_id_get");
    return id_join(&id, token, secret, deadline, ret_store);
}

/* ---- Freeing an id --------------------------------------------------------------------------- */

rcm_status rcm_unique_id_free(const struct rcm_unique_id *given) {
    struct id id;
    char token[TOKEN_TEXT];
    if (!given)
        return rcmi_fail(RCM_ERR_INVALID, 0, "id is NULL");
    const rcm_status status = id_read(given, "id", &id);
    if (status != RCM_OK)
        return status;
    token_text(&id, token);
    rcm_store *store = NULL;
    if (served_take(token, &store) != SERVED_FREE)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0,
                         "this process serves no store for id %s: another process made it, or a "
                         "rank of this process has used it, or it was freed",
                         token);
    rcm_store_close(store);
    return RCM_OK;
}
