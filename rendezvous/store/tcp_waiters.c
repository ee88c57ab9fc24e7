/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiters of the TCP store's server: one list per key's entry and one list per client. */
#include <stdlib.h>
#include "error.h"
#include "tcp_server.h"
#include "wire.h"

/* One client waits for one key; a member of both lists. */
struct rcmi_waiter {
    struct rcmi_waiter *key_next, **key_at;       /* at the entry */
    struct rcmi_waiter *client_next, **client_at; /* at the client */
    struct rcmi_client *client;
    struct rcmi_entry *entry;
};

static void waiter_link(struct rcmi_waiter *w) {
    struct rcmi_waiter *first = w->entry->waiters;
    w->key_next = first;
    w->key_at = (struct rcmi_waiter **)&w->entry->waiters;
    if (first)
        first->key_at = &w->key_next;
    w->entry->waiters = w;
    w->client_next = w->client->waits;
    w->client_at = &w->client->waits;
    if (w->client_next)
        w->client_next->client_at = &w->client_next;
    w->client->waits = w;
}

static void waiter_unlink(struct rcmi_waiter *w) {
    *w->key_at = w->key_next;
    if (w->key_next)
        w->key_next->key_at = w->key_at;
    *w->client_at = w->client_next;
    if (w->client_next)
        w->client_next->client_at = w->client_at;
}

void rcmi_wait_cancel(struct rcmi_client *client) {
    while (client->waits) {
        struct rcmi_waiter *w = client->waits;
        waiter_unlink(w);
        rcmi_map_release(&client->server->map, w->entry);
        free(w);
    }
    client->awaited = 0;
}

static rcm_status wait_for(struct rcmi_client *client, struct rcmi_bytes key) {
    struct rcmi_entry *entry;
    struct rcmi_waiter *w = calloc(1, sizeof *w);
    if (!w)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a waiter");
    rcm_status status = rcmi_map_entry(&client->server->map, key, &entry);
    if (status != RCM_OK) {
        free(w);
        return status;
    }
    w->client = client;
    w->entry = entry;
    waiter_link(w);
    client->awaited++;
    return RCM_OK;
}

bool rcmi_key_exists(const struct rcmi_server *server, struct rcmi_bytes key) {
    return rcmi_map_present(&server->map, key) || rcmi_map_present(&server->queues, key);
}

bool rcmi_wait_begin(struct rcmi_client *client, const struct rcmi_bytes *keys, size_t n) {
    rcmi_wait_cancel(client); /* a new WAIT replaces the client's earlier one */
    for (size_t i = 0; i < n; i++) {
        if (rcmi_key_exists(client->server, keys[i]))
            continue;
        if (wait_for(client, keys[i]) != RCM_OK) {
            rcmi_client_drop(client, "%s", rcmi_last_error()->text);
            return false;
        }
    }
    return client->awaited == 0;
}

void rcmi_wait_next(struct rcmi_client *client, struct rcmi_bytes key) {
    rcmi_wait_cancel(client);
    if (wait_for(client, key) != RCM_OK)
        rcmi_client_drop(client, "%s", rcmi_last_error()->text);
}

/* Removes the waiter; true if its client waits for no other key and was woken. */
static bool waiter_wake(struct rcmi_waiter *w) {
    struct rcmi_client *client = w->client;
    waiter_unlink(w);
    free(w);
    if (--client->awaited > 0)
        return false;
    rcmi_client_send_byte(client, RCMI_WIRE_STOP_WAITING);
    rcmi_client_flush(client);
    return true;
}

void rcmi_wait_wake(struct rcmi_entry *entry) {
    while (entry->waiters)
        (void)waiter_wake(entry->waiters);
}

void rcmi_wait_wake_one(struct rcmi_entry *entry) {
    while (entry->waiters && !waiter_wake(entry->waiters))
        ;
}
