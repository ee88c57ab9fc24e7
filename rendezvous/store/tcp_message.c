/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses and handles the messages of TCP store clients (wire.h). A message is scanned field by
 * field as its bytes arrive; each length is checked against its limit first. When the message is
 * complete, its handler runs. MULTI_SET is handled pair by pair, because a whole one may exceed any
 * reasonable buffer size.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "tcp_server.h"
#include "wire.h"

/* Reads the fields of a complete message; the scan has already checked the lengths. */
struct reader {
    const unsigned char *at;
};

struct rcmi_message {
    uint8_t op;
    const char *name;
    const char *fields; /* of one item: k key, v value, n number, u uint32 */
    bool list;
    void (*handle)(struct rcmi_client *client, struct reader *reader, uint64_t items);
};

static uint64_t read_u64(struct reader *reader) {
    uint64_t value;
    memcpy(&value, reader->at, sizeof value);
    reader->at += sizeof value;
    return value;
}

static struct rcmi_bytes read_bytes(struct reader *reader) {
    size_t len = (size_t)read_u64(reader);
    struct rcmi_bytes bytes = {reader->at, len};
    reader->at += len;
    return bytes;
}

/* ---- Handlers ------------------------------------------------------------------------------ */

/* Sets the key's value and wakes the clients that wait for it. */
static bool key_put(struct rcmi_client *client, struct rcmi_bytes key, struct rcmi_bytes value) {
    struct rcmi_entry *entry;
    rcm_status status = rcmi_map_entry(&client->server->map, key, &entry);
    if (status == RCM_OK) {
        status = rcmi_map_put(&client->server->map, entry, value);
        if (status == RCM_OK)
            rcmi_wait_wake(entry);
        else
            rcmi_map_release(&client->server->map, entry);
    }
    if (status != RCM_OK)
        rcmi_client_drop(client, "%s", rcmi_last_error()->text);
    return status == RCM_OK;
}

static void handle_set(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_bytes key = read_bytes(r), value = read_bytes(r);
    (void)items;
    (void)key_put(client, key, value);
}

/* Compares, and sets on a match; *ret_value is the value afterwards. */
static enum rcmi_compare compare_set(struct rcmi_client *client, struct reader *r,
                                     struct rcmi_bytes *ret_expected,
                                     struct rcmi_bytes *ret_value) {
    struct rcmi_bytes key = read_bytes(r), expected = read_bytes(r), desired = read_bytes(r);
    struct rcmi_entry *entry = rcmi_map_present(&client->server->map, key);
    enum rcmi_compare what = rcmi_compare(entry, expected);

    *ret_expected = expected;
    *ret_value = (struct rcmi_bytes){NULL, 0};
    if (what == RCMI_COMPARE_KEEP)
        *ret_value = rcmi_entry_value(entry);
    if (what == RCMI_COMPARE_SET && key_put(client, key, desired))
        *ret_value = desired;
    return what;
}

static void handle_compare_set(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_bytes expected, value;
    enum rcmi_compare what = compare_set(client, r, &expected, &value);
    (void)items;
    /* For a missing key torch's protocol returns the expected value. */
    rcmi_client_send_value(client, what == RCMI_COMPARE_MISSING ? expected : value);
}

static void handle_xcompare_set(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_bytes expected, value;
    enum rcmi_compare what = compare_set(client, r, &expected, &value);
    (void)items;
    rcmi_client_send_byte(client, what == RCMI_COMPARE_KEEP ? 0 : what == RCMI_COMPARE_SET ? 1 : 2);
    rcmi_client_send_value(client, value);
}

static void send_key(struct rcmi_client *client, struct rcmi_bytes key) {
    struct rcmi_entry *entry = rcmi_map_present(&client->server->map, key);
    struct rcmi_bytes value = {NULL, 0};
    if (entry)
        value = rcmi_entry_value(entry);
    rcmi_client_send_value(client, value);
}

static void handle_get(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)items;
    send_key(client, read_bytes(r));
}

static rcm_status key_add(struct rcmi_client *client, struct reader *r, int64_t *ret_sum) {
    struct rcmi_bytes key = read_bytes(r);
    int64_t delta = (int64_t)read_u64(r);
    char text[RCMI_INT_TEXT];
    rcm_status status =
        rcmi_add_text(key, rcmi_map_present(&client->server->map, key), delta, ret_sum, text);
    if (status == RCM_OK && !key_put(client, key, (struct rcmi_bytes){text, strlen(text)}))
        status = RCM_ERR_NOMEM;
    return status;
}

static void handle_add(struct rcmi_client *client, struct reader *r, uint64_t items) {
    int64_t sum;
    (void)items;
    if (key_add(client, r, &sum) == RCM_OK)
        rcmi_client_send_number(client, sum);
    else /* torch's protocol has no error reply */
        rcmi_client_drop(client, "%s", rcmi_last_error()->text);
}

static void handle_xadd(struct rcmi_client *client, struct reader *r, uint64_t items) {
    int64_t sum = 0;
    (void)items;
    rcm_status status = key_add(client, r, &sum);
    rcmi_client_send_byte(client, status == RCM_OK ? 0 : 1);
    rcmi_client_send_number(client, sum);
}

/* Whether it is the key of our extension, which always exists. */
static bool is_features(struct rcmi_bytes key) {
    static const struct rcmi_bytes features = {RCMI_WIRE_FEATURES, sizeof RCMI_WIRE_FEATURES - 1};
    return rcmi_bytes_equal(key, features);
}

static void handle_check(struct rcmi_client *client, struct reader *r, uint64_t items) {
    bool all = true;
    for (uint64_t i = 0; i < items && all; i++) {
        struct rcmi_bytes key = read_bytes(r);
        all = rcmi_key_exists(client->server, key) || is_features(key);
    }
    rcmi_client_send_byte(client, all ? RCMI_WIRE_READY : RCMI_WIRE_NOT_READY);
}

static void handle_wait(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_bytes *keys = malloc((size_t)items * sizeof *keys + 1);
    if (!keys) {
        rcmi_client_drop(client, "no memory for %" PRIu64 " keys", items);
        return;
    }
    for (uint64_t i = 0; i < items; i++)
        keys[i] = read_bytes(r);
    if (rcmi_wait_begin(client, keys, (size_t)items))
        rcmi_client_send_byte(client, RCMI_WIRE_STOP_WAITING);
    free(keys);
}

static void handle_cancel_wait(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)r;
    (void)items;
    rcmi_wait_cancel(client);
    rcmi_client_send_byte(client, RCMI_WIRE_WAIT_CANCELED);
}

static void handle_getnumkeys(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)r;
    (void)items;
    rcmi_client_send_number(client, (int64_t)client->server->map.npresent);
}

static void handle_delete_key(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)items;
    rcmi_client_send_number(client, rcmi_map_remove(&client->server->map, read_bytes(r)));
}

static rcm_status key_append(struct rcmi_client *client, struct reader *r) {
    struct rcmi_map *map = &client->server->map;
    struct rcmi_bytes key = read_bytes(r), value = read_bytes(r);
    struct rcmi_entry *entry;
    rcm_status status = rcmi_append_check(key, rcmi_map_present(map, key), value.len);
    if (status == RCM_OK)
        status = rcmi_map_entry(map, key, &entry);
    if (status != RCM_OK)
        return status;
    status = rcmi_map_append(map, entry, value);
    if (status == RCM_OK)
        rcmi_wait_wake(entry);
    else
        rcmi_map_release(map, entry);
    return status;
}

static void handle_append(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)items;
    if (key_append(client, r) != RCM_OK)
        rcmi_client_drop(client, "%s", rcmi_last_error()->text);
}

static void handle_xappend(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)items;
    rcmi_client_send_byte(client, key_append(client, r) == RCM_OK ? 0 : 1);
}

/* Sends the values of the keys at get_pos until the output exceeds its limit. Until all are sent,
 * the message stays at the front of the input, and later messages are not scanned. */
static void get_continue(struct rcmi_client *client) {
    while (client->get_left > 0 && !client->dead) {
        if (rcmi_buffer_len(&client->out) > RCMI_CLIENT_OUT_HIGH)
            return;
        struct reader r = {rcmi_buffer_front(&client->in) + client->get_pos};
        const unsigned char *start = r.at;
        send_key(client, read_bytes(&r));
        client->get_pos += (size_t)(r.at - start);
        client->get_left--;
    }
}

static void handle_multi_get(struct rcmi_client *client, struct reader *r, uint64_t items) {
    client->get_pos = (size_t)(r->at - (rcmi_buffer_front(&client->in)));
    client->get_left = items;
    get_continue(client);
}

static void handle_ping(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)items;
    rcmi_client_send(client, r->at, sizeof(uint32_t));
}

/* ---- Queues, lists and barriers of torch --------------------------------------------------- */

/* The value of a queue's entry: uint64 count, then items of uint64 length and bytes. */
static uint64_t queue_len(const struct rcmi_entry *queue) {
    uint64_t count = 0;
    if (queue)
        memcpy(&count, queue->value, sizeof count);
    return count;
}

static rcm_status queue_push(struct rcmi_map *queues, struct rcmi_bytes key,
                             struct rcmi_bytes item) {
    struct rcmi_entry *queue;
    uint64_t count = 1, len = item.len;
    rcm_status status = rcmi_map_entry(queues, key, &queue);
    if (status != RCM_OK)
        return status;
    size_t old_len = queue->value_len;
    if (queue->present)
        count = queue_len(queue) + 1;
    else
        status = rcmi_map_append(queues, queue, (struct rcmi_bytes){&count, sizeof count});
    if (status == RCM_OK)
        status = rcmi_map_append(queues, queue, (struct rcmi_bytes){&len, sizeof len});
    if (status == RCM_OK)
        status = rcmi_map_append(queues, queue, item);
    if (status == RCM_OK)
        memcpy(queue->value, &count, sizeof count);
    else if (old_len > 0)
        queue->value_len = old_len;
    else
        (void)rcmi_map_remove(queues, key);
    return status;
}

static void handle_queue_push(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_bytes key = read_bytes(r), item = read_bytes(r);
    (void)items;
    if (queue_push(&client->server->queues, key, item) != RCM_OK) {
        rcmi_client_drop(client, "%s", rcmi_last_error()->text);
        return;
    }
    struct rcmi_entry *awaited = rcmi_map_find(&client->server->map, key);
    if (awaited) {
        rcmi_wait_wake_one(awaited);
        rcmi_map_release(&client->server->map, awaited);
    }
}

static void handle_queue_pop(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_bytes key = read_bytes(r);
    struct rcmi_entry *queue = rcmi_map_present(&client->server->queues, key);
    uint64_t count = queue_len(queue);
    (void)items;
    rcmi_client_send_number(client, (int64_t)count);
    if (count == 0)
        return;
    unsigned char *value = queue->value;
    struct reader first = {value + sizeof count};
    rcmi_client_send_value(client, read_bytes(&first));
    if (--count == 0) {
        (void)rcmi_map_remove(&client->server->queues, key);
        return;
    }
    memcpy(value, &count, sizeof count);
    memmove(value + sizeof count, first.at, queue->value_len - (size_t)(first.at - value));
    queue->value_len -= (size_t)(first.at - value) - sizeof count;
}

static void handle_queue_len(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)items;
    rcmi_client_send_number(
        client, (int64_t)queue_len(rcmi_map_present(&client->server->queues, read_bytes(r))));
}

static void send_entry_key(void *client, const struct rcmi_entry *entry) {
    rcmi_client_send_value(client, (struct rcmi_bytes){entry->key, entry->key_len});
}

static void handle_list_keys(struct rcmi_client *client, struct reader *r, uint64_t items) {
    (void)r;
    (void)items;
    rcmi_client_send_number(client, (int64_t)client->server->map.npresent);
    rcmi_map_each(&client->server->map, send_entry_key, client);
}

/* Increments the key without waking its waiters; the last client of the barrier wakes them. */
static void handle_barrier(struct rcmi_client *client, struct reader *r, uint64_t items) {
    struct rcmi_map *map = &client->server->map;
    struct rcmi_bytes key = read_bytes(r);
    int64_t size = (int64_t)read_u64(r), count;
    char text[RCMI_INT_TEXT];
    struct rcmi_entry *entry;
    (void)items;
    rcm_status status = rcmi_add_text(key, rcmi_map_present(map, key), 1, &count, text);
    if (status == RCM_OK)
        status = rcmi_map_entry(map, key, &entry);
    if (status == RCM_OK)
        status = rcmi_map_put(map, entry, (struct rcmi_bytes){text, strlen(text)});
    if (status != RCM_OK) {
        rcmi_client_drop(client, "%s", rcmi_last_error()->text);
        return;
    }
    if (count < size) {
        rcmi_wait_next(client, key);
        return;
    }
    rcmi_wait_wake(entry);
    rcmi_client_send_byte(client, RCMI_WIRE_STOP_WAITING);
}

/* ---- The table ----------------------------------------------------------------------------- */

static const struct rcmi_message messages[] = {
    {RCMI_WIRE_SET, "SET", "kv", false, handle_set},
    {RCMI_WIRE_COMPARE_SET, "COMPARE_SET", "kvv", false, handle_compare_set},
    {RCMI_WIRE_GET, "GET", "k", false, handle_get},
    {RCMI_WIRE_ADD, "ADD", "kn", false, handle_add},
    {RCMI_WIRE_CHECK, "CHECK", "k", true, handle_check},
    {RCMI_WIRE_WAIT, "WAIT", "k", true, handle_wait},
    {RCMI_WIRE_GETNUMKEYS, "GETNUMKEYS", "", false, handle_getnumkeys},
    {RCMI_WIRE_DELETE_KEY, "DELETE_KEY", "k", false, handle_delete_key},
    {RCMI_WIRE_APPEND, "APPEND", "kv", false, handle_append},
    {RCMI_WIRE_MULTI_GET, "MULTI_GET", "k", true, handle_multi_get},
    {RCMI_WIRE_MULTI_SET, "MULTI_SET", "kv", true, handle_set},
    {RCMI_WIRE_CANCEL_WAIT, "CANCEL_WAIT", "", false, handle_cancel_wait},
    {RCMI_WIRE_PING, "PING", "u", false, handle_ping},
    {RCMI_WIRE_QUEUE_PUSH, "QUEUE_PUSH", "kv", false, handle_queue_push},
    {RCMI_WIRE_QUEUE_POP, "QUEUE_POP", "k", false, handle_queue_pop},
    {RCMI_WIRE_QUEUE_LEN, "QUEUE_LEN", "k", false, handle_queue_len},
    {RCMI_WIRE_LIST_KEYS, "LIST_KEYS", "", false, handle_list_keys},
    {RCMI_WIRE_BARRIER, "BARRIER", "kn", false, handle_barrier},
    {RCMI_WIRE_XADD, "XADD", "kn", false, handle_xadd},
    {RCMI_WIRE_XCOMPARE_SET, "XCOMPARE_SET", "kvv", false, handle_xcompare_set},
    {RCMI_WIRE_XAPPEND, "XAPPEND", "kv", false, handle_xappend},
};

/* Converts opcodes of the dialect of torch 1.13 (up to DELETE_KEY) and 2.0 to current ones. In that
 * dialect SET is 0, there is no VALIDATE, and WATCH_KEY is 7; it is unused and rejected here. */
static const uint8_t old_ops[] = {RCMI_WIRE_SET,        RCMI_WIRE_COMPARE_SET, RCMI_WIRE_GET,
                                  RCMI_WIRE_ADD,        RCMI_WIRE_CHECK,       RCMI_WIRE_WAIT,
                                  RCMI_WIRE_GETNUMKEYS, RCMI_WIRE_VALIDATE,    RCMI_WIRE_DELETE_KEY,
                                  RCMI_WIRE_APPEND,     RCMI_WIRE_MULTI_GET,   RCMI_WIRE_MULTI_SET,
                                  RCMI_WIRE_CANCEL_WAIT};

static const struct rcmi_message *message_find(const struct rcmi_client *client, uint8_t op) {
    if (client->state == RCMI_CLIENT_OLD) {
        if (op >= sizeof old_ops)
            return NULL;
        op = old_ops[op];
    }
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        if (messages[i].op == op)
            return &messages[i];
    }
    return NULL;
}

/* ---- Scanning the input -------------------------------------------------------------------- */

enum progress { INCOMPLETE, COMPLETE, WRONG };

static size_t scan_left(const struct rcmi_client *client) {
    return rcmi_buffer_len(&client->in) - client->scan.pos;
}

static uint64_t scan_u64(const struct rcmi_client *client) {
    struct reader r = {rcmi_buffer_front(&client->in) + client->scan.pos};
    return read_u64(&r);
}

static enum progress scan_start(struct rcmi_client *client) {
    struct rcmi_scan *scan = &client->scan;
    uint8_t op = client->in.data[client->in.head];
    const struct rcmi_message *message = message_find(client, op);
    if (!message) {
        rcmi_client_drop(client, "unknown operation %u", op);
        return WRONG;
    }
    scan->pos = 1;
    scan->items = 1;
    if (message->list) {
        if (scan_left(client) < sizeof(uint64_t))
            return INCOMPLETE;
        scan->items = scan_u64(client);
        if (scan->items > RCMI_WIRE_LIST_MAX) {
            rcmi_client_drop(client, "%s of %" PRIu64 " keys, at most %d", message->name,
                             scan->items, RCMI_WIRE_LIST_MAX);
            return WRONG;
        }
        scan->pos += sizeof(uint64_t);
    }
    scan->message = message;
    scan->field = message->fields;
    return COMPLETE;
}

/* Torch 1.13 has no limit, and its users may rely on that, so old clients have a higher one. */
static uint64_t value_max(const struct rcmi_client *client) {
    return client->state == RCMI_CLIENT_OLD ? RCMI_WIRE_REPLY_MAX : RCMI_WIRE_VALUE_MAX;
}

static enum progress scan_field(struct rcmi_client *client) {
    struct rcmi_scan *scan = &client->scan;
    size_t size = *scan->field == 'u' ? sizeof(uint32_t) : sizeof(uint64_t);
    bool key = *scan->field == 'k', value = *scan->field == 'v';

    if (scan_left(client) < size)
        return INCOMPLETE;
    if (key || value) {
        uint64_t len = scan_u64(client), max = key ? RCMI_WIRE_KEY_MAX : value_max(client);
        if (len > max) {
            rcmi_client_drop(client, "%s with a %s of %" PRIu64 " bytes, at most %" PRIu64,
                             scan->message->name, key ? "key" : "value", len, max);
            return WRONG;
        }
        size += (size_t)len;
    }
    if (scan->message->list && scan->pos + size > RCMI_WIRE_BYTES_MAX) {
        rcmi_client_drop(client, "%s of more than %zu bytes", scan->message->name,
                         (size_t)RCMI_WIRE_BYTES_MAX);
        return WRONG;
    }
    if (scan_left(client) < size)
        return INCOMPLETE;
    scan->pos += size;
    scan->field++;
    return COMPLETE;
}

/* Handles a complete pair of a MULTI_SET and removes it from the input. */
static void item_handle(struct rcmi_client *client) {
    struct rcmi_scan *scan = &client->scan;
    struct reader r = {rcmi_buffer_front(&client->in)};
    scan->message->handle(client, &r, 1);
    rcmi_buffer_drop(&client->in, scan->pos);
    scan->pos = 0;
}

static enum progress scan_items(struct rcmi_client *client) {
    struct rcmi_scan *scan = &client->scan;
    bool singly = scan->message->op == RCMI_WIRE_MULTI_SET;

    if (singly && scan->field == scan->message->fields && scan->pos == 1 + sizeof(uint64_t)) {
        rcmi_buffer_drop(&client->in, scan->pos); /* opcode and count */
        scan->pos = 0;
    }
    while (scan->items > 0 && !client->dead) {
        while (*scan->field) {
            enum progress progress = scan_field(client);
            if (progress != COMPLETE)
                return progress;
        }
        scan->items--;
        scan->field = scan->message->fields;
        if (singly)
            item_handle(client);
    }
    return client->dead ? WRONG : COMPLETE;
}

static void scan_end(struct rcmi_client *client) {
    rcmi_buffer_drop(&client->in, client->scan.pos);
    client->scan = (struct rcmi_scan){0};
}

/* Handles the complete message at the front. */
static void message_handle(struct rcmi_client *client) {
    const struct rcmi_message *message = client->scan.message;
    struct reader r = {rcmi_buffer_front(&client->in)};
    uint64_t items = 1;

    rcmi_client_identified(client);
    if (message->op != RCMI_WIRE_MULTI_SET) {
        r.at++;
        if (message->list)
            items = read_u64(&r);
        message->handle(client, &r, items);
    }
    if (client->get_left == 0)
        scan_end(client);
}

/* Detects the dialect from the first bytes. COMPLETE: detected. */
static enum progress dialect_find(struct rcmi_client *client) {
    const uint32_t magic = RCMI_WIRE_MAGIC;
    const unsigned char *p = rcmi_buffer_front(&client->in);
    size_t len = rcmi_buffer_len(&client->in);

    if (len == 0 || (p[0] == RCMI_WIRE_VALIDATE && len < 1 + sizeof magic))
        return INCOMPLETE;
    if (p[0] == RCMI_WIRE_VALIDATE && memcmp(p + 1, &magic, sizeof magic) == 0) {
        client->state = RCMI_CLIENT_C10D;
        rcmi_buffer_drop(&client->in, 1 + sizeof magic);
        rcmi_client_identified(client);
        return COMPLETE;
    }
    if (p[0] == 'R') {
        rcmi_client_drop(client, "it uses a secret and this store has none; set the same "
                                 "RINGCOMM_SECRET everywhere");
        return WRONG;
    }
    client->state = RCMI_CLIENT_OLD; /* or not a store client: its first message will fail then */
    return COMPLETE;
}

/* Handles the next message if it is complete, or the rest of a MULTI_GET. */
static enum progress message_next(struct rcmi_client *client) {
    enum progress progress = COMPLETE;
    if (client->get_left > 0) {
        get_continue(client);
        if (client->get_left == 0)
            scan_end(client);
        return COMPLETE;
    }
    if (client->state == RCMI_CLIENT_NEW)
        progress = dialect_find(client);
    if (progress == COMPLETE && !client->scan.message)
        progress = rcmi_buffer_len(&client->in) > 0 ? scan_start(client) : INCOMPLETE;
    if (progress == COMPLETE)
        progress = scan_items(client);
    if (progress == COMPLETE)
        message_handle(client);
    return progress;
}

void rcmi_messages_handle(struct rcmi_client *client) {
    client->stalled = false;
    while (!client->dead && message_next(client) == COMPLETE) {
        if (rcmi_buffer_len(&client->out) > RCMI_CLIENT_OUT_HIGH) {
            client->stalled = true;
            return;
        }
    }
}
