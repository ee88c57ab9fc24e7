/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address blob: what a peer needs to reach a node. It holds a magic number and then fields: a
 * tag byte, a length byte and that many bytes. Readers skip unknown tags. Strings include their
 * NUL. Numbers are little-endian; addresses and ports are in network byte order. The blob comes
 * from a store that other programs may have written to, so every length is checked.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "net.h"
#include "process.h"
#include "fd.h"

static const uint8_t address_magic[4] = {'R', 'C', 'A', '1'};

enum address_tag {
    TAG_HOST_ID = 1,
    TAG_HOSTNAME,
    TAG_PID,
    TAG_JOB,
    TAG_WHERE,
    TAG_UNIX,
    TAG_TRANSPORTS,
    TAG_TCP4, /* port, address */
    TAG_TCP6,
    TAG_IFACE, /* index of an earlier address, name of its interface */
    TAG_LIFE,  /* start time of the process, its pid and time namespaces */
    TAG_LACKS, /* why other transports are unavailable */
};

/* ---- Writing --------------------------------------------------------------------------------- */

struct writer {
    uint8_t *at;
    size_t left;
    bool full;
};

static void put_field(struct writer *w, enum address_tag tag, const void *bytes, size_t len) {
    if (len > UINT8_MAX || w->left < len + 2) {
        w->full = true;
        return;
    }
    w->at[0] = (uint8_t)tag;
    w->at[1] = (uint8_t)len;
    memcpy(w->at + 2, bytes, len);
    w->at += len + 2;
    w->left -= len + 2;
}

static void put_string(struct writer *w, enum address_tag tag, const char *text) {
    put_field(w, tag, text, strlen(text) + 1);
}

static void put_number(struct writer *w, enum address_tag tag, const uint64_t *values, int count) {
    uint8_t bytes[24];
    for (int i = 0; i < count * 8; i++)
        bytes[i] = (uint8_t)(values[i / 8] >> (i % 8 * 8));
    put_field(w, tag, bytes, (size_t)count * 8);
}

static void put_tcp(struct writer *w, const struct rcmi_sockaddr *addr) {
    uint8_t bytes[18];
    if (addr->addr.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &addr->addr, sizeof in);
        memcpy(bytes, &in.sin_port, 2);
        memcpy(bytes + 2, &in.sin_addr, 4);
        put_field(w, TAG_TCP4, bytes, 6);
    } else {
        struct sockaddr_in6 in6;
        memcpy(&in6, &addr->addr, sizeof in6);
        memcpy(bytes, &in6.sin6_port, 2);
        memcpy(bytes + 2, &in6.sin6_addr, 16);
        put_field(w, TAG_TCP6, bytes, 18);
    }
}

/* Only for error texts: left out if it does not fit. */
static void put_lacks(struct writer *w, const char *text) {
    if (text[0] && w->left >= strlen(text) + 3)
        put_string(w, TAG_LACKS, text);
}

static void put_iface(struct writer *w, int i, const char *name) {
    uint8_t bytes[1 + RCMI_IFACE_MAX] = {(uint8_t)i};
    const size_t len = 1 + strlen(name) + 1;
    memcpy(bytes + 1, name, len - 1);
    if (name[0] && w->left >= len + 2)
        put_field(w, TAG_IFACE, bytes, len);
}

rcm_status rcmi_address_write(const struct rcmi_address *address, uint8_t *buf, size_t cap,
                              size_t *ret_len) {
    struct writer w = {.at = buf + sizeof address_magic, .left = cap - sizeof address_magic};
    uint64_t pid = (uint64_t)(unsigned)address->pid;
    memcpy(buf, address_magic, sizeof address_magic);
    put_string(&w, TAG_HOST_ID, address->host_id);
    put_string(&w, TAG_HOSTNAME, address->hostname);
    put_number(&w, TAG_PID, &pid, 1);
    put_number(&w, TAG_JOB, &address->job, 1);
    put_number(&w, TAG_WHERE, address->where, 2);
    put_number(&w, TAG_LIFE, address->life, 3);
    put_string(&w, TAG_TRANSPORTS, address->transports);
    if (address->unix_name[0])
        put_string(&w, TAG_UNIX, address->unix_name);
    for (int i = 0; i < address->ntcp; i++)
        put_tcp(&w, &address->tcp[i]);
    put_lacks(&w, address->lacks);
    for (int i = 0; !w.full && i < address->ntcp; i++)
        put_iface(&w, i, address->iface[i]);
    if (w.full)
        return rcmi_fail(RCM_ERR_INTERNAL, 0, "an address does not fit %zu bytes", cap);
    *ret_len = (size_t)(w.at - buf);
    return RCM_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct field {
    enum address_tag tag;
    const uint8_t *bytes;
    size_t len;
};

/* Reads the field at *offset and advances it. RCM_AGAIN at the end. */
static rcm_status next_field(const uint8_t *blob, size_t len, size_t *offset,
                             struct field *ret_field) {
    if (*offset == len)
        return RCM_AGAIN;
    if (len - *offset < 2 || len - *offset - 2 < blob[*offset + 1])
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "an address is cut off after %zu bytes", len);
    ret_field->tag = (enum address_tag)blob[*offset];
    ret_field->len = blob[*offset + 1];
    ret_field->bytes = blob + *offset + 2;
    *offset += 2 + ret_field->len;
    return RCM_OK;
}

static rcm_status check_magic(const void *blob, size_t len) {
    if (len < sizeof address_magic || len > RCMI_ADDRESS_MAX ||
        memcmp(blob, address_magic, sizeof address_magic) != 0)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "%zu bytes are not an address of this version of libringcomm", len);
    return RCM_OK;
}

static bool field_is_string(const struct field *field) {
    return field->len > 0 && memchr(field->bytes, 0, field->len) == field->bytes + field->len - 1;
}

static bool get_string(const struct field *field, char *ret_text, size_t cap) {
    if (!field_is_string(field) || field->len > cap)
        return false;
    memcpy(ret_text, field->bytes, field->len);
    return true;
}

static bool get_number(const struct field *field, uint64_t *ret_values, size_t count) {
    if (field->len != count * 8)
        return false;
    for (size_t i = 0; i < count; i++) {
        ret_values[i] = 0;
        for (size_t b = 0; b < 8; b++)
            ret_values[i] |= (uint64_t)field->bytes[i * 8 + b] << (b * 8);
    }
    return true;
}

static bool get_tcp(const struct field *field, struct rcmi_sockaddr *ret_addr) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    memset(ret_addr, 0, sizeof *ret_addr);
    if (field->tag == TAG_TCP4 && field->len == 6) {
        memcpy(&in.sin_port, field->bytes, 2);
        memcpy(&in.sin_addr, field->bytes + 2, 4);
        memcpy(&ret_addr->addr, &in, sizeof in);
        ret_addr->len = sizeof in;
        return true;
    }
    if (field->tag == TAG_TCP6 && field->len == 18) {
        memcpy(&in6.sin6_port, field->bytes, 2);
        memcpy(&in6.sin6_addr, field->bytes + 2, 16);
        memcpy(&ret_addr->addr, &in6, sizeof in6);
        ret_addr->len = sizeof in6;
        return true;
    }
    return false;
}

/* The name is untrusted and will be printed: unprintable characters become '?'. */
static bool get_iface(const struct field *field, struct rcmi_address *address) {
    const struct field name = {.bytes = field->bytes + 1, .len = field->len - 1};
    if (field->len < 2 || field->bytes[0] >= address->ntcp ||
        !get_string(&name, address->iface[field->bytes[0]], RCMI_IFACE_MAX))
        return false;
    for (char *c = address->iface[field->bytes[0]]; *c; c++)
        *c = *c <= ' ' || *c > '~' ? '?' : *c;
    return true;
}

static bool get_field(const struct field *field, struct rcmi_address *address) {
    uint64_t pid = 0;
    switch (field->tag) {
    case TAG_HOST_ID:
        return get_string(field, address->host_id, sizeof address->host_id);
    case TAG_HOSTNAME:
        return get_string(field, address->hostname, sizeof address->hostname);
    case TAG_PID:
        if (!get_number(field, &pid, 1) || pid > INT32_MAX)
            return false;
        address->pid = (int)pid;
        return true;
    case TAG_JOB:
        return get_number(field, &address->job, 1);
    case TAG_WHERE:
        return get_number(field, address->where, 2);
    case TAG_LIFE:
        return get_number(field, address->life, 3);
    case TAG_UNIX:
        return get_string(field, address->unix_name, sizeof address->unix_name);
    case TAG_TRANSPORTS:
        return get_string(field, address->transports, sizeof address->transports);
    case TAG_LACKS:
        return get_string(field, address->lacks, sizeof address->lacks);
    case TAG_TCP4:
    case TAG_TCP6:
        if (address->ntcp == RCMI_ADDRESSES_MAX)
            return true; /* further addresses are ignored */
        return get_tcp(field, &address->tcp[address->ntcp++]);
    case TAG_IFACE:
        return get_iface(field, address);
    default:
        return true;
    }
}

rcm_status rcmi_address_parse(const void *blob, size_t len, struct rcmi_address *ret_address) {
    struct rcmi_address address = {.pid = -1};
    size_t offset = sizeof address_magic;
    struct field field = {.len = 0};
    rcm_status status = check_magic(blob, len);
    while (status == RCM_OK) {
        status = next_field(blob, len, &offset, &field);
        if (status == RCM_OK && !get_field(&field, &address))
            status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "an address has a bad field %d of %zu bytes",
                               (int)field.tag, field.len);
    }
    if (status != RCM_AGAIN)
        return status;
    if (address.pid < 0 || !address.host_id[0])
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "an address of %zu bytes lacks process or host", len);
    *ret_address = address;
    return RCM_OK;
}

/* Returns the first field with this tag; it points into blob. */
static rcm_status find_field(const void *blob, size_t len, enum address_tag tag,
                             struct field *ret_field) {
    size_t offset = sizeof address_magic;
    rcm_status status = check_magic(blob, len);
    while (status == RCM_OK) {
        status = next_field(blob, len, &offset, ret_field);
        if (status == RCM_OK && ret_field->tag == tag)
            return RCM_OK;
    }
    if (status == RCM_AGAIN)
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "an address lacks field %d", (int)tag);
    return status;
}

static rcm_status find_string(const void *blob, size_t len, enum address_tag tag,
                              const char **ret_text) {
    struct field field = {.len = 0};
    rcm_status status = find_field(blob, len, tag, &field);
    if (status != RCM_OK)
        return status;
    if (!field_is_string(&field))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "field %d of an address is not a string", (int)tag);
    *ret_text = (const char *)field.bytes;
    return RCM_OK;
}

rcm_status rcmi_address_host(const void *blob, size_t len, const char **ret_host_id) {
    return find_string(blob, len, TAG_HOST_ID, ret_host_id);
}

static void summary_take(const struct field *field, struct rcmi_address_summary *summary) {
    const char *text = (const char *)field->bytes;
    struct rcmi_sockaddr addr;
    if ((field->tag == TAG_TCP4 || field->tag == TAG_TCP6) && get_tcp(field, &addr))
        summary->reach |= rcmi_sockaddr_loopback(&addr)    ? RCMI_REACH_LOOPBACK
                          : addr.addr.ss_family == AF_INET ? RCMI_REACH_IPV4
                                                           : RCMI_REACH_IPV6;
    else if (field->tag == TAG_WHERE)
        (void)get_number(field, summary->where, 2);
    else if (!field_is_string(field))
        return;
    if (field->tag == TAG_HOST_ID)
        summary->host_id = text;
    else if (field->tag == TAG_TRANSPORTS)
        summary->transports = text;
    else if (field->tag == TAG_LACKS)
        summary->lacks = text;
}

rcm_status rcmi_address_summary(const void *blob, size_t len,
                                struct rcmi_address_summary *ret_summary) {
    struct rcmi_address_summary summary = {.lacks = ""};
    size_t offset = sizeof address_magic;
    struct field field = {.len = 0};
    rcm_status status = check_magic(blob, len);
    while (status == RCM_OK) {
        status = next_field(blob, len, &offset, &field);
        if (status == RCM_OK)
            summary_take(&field, &summary);
    }
    if (status != RCM_AGAIN)
        return status;
    if (!summary.host_id || !summary.transports)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "an address of %zu bytes lacks host or transports",
                         len);
    *ret_summary = summary;
    return RCM_OK;
}

rcm_status rcmi_address_process(const void *blob, size_t len, int *ret_pid,
                                const char **ret_hostname) {
    struct field field = {.len = 0};
    uint64_t pid = 0;
    const char *hostname = NULL;
    rcm_status status = find_field(blob, len, TAG_PID, &field);
    if (status == RCM_OK)
        status = find_string(blob, len, TAG_HOSTNAME, &hostname);
    if (status != RCM_OK)
        return status;
    if (!get_number(&field, &pid, 1) || pid > INT32_MAX)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the process number of an address is not valid");
    *ret_pid = (int)pid;
    *ret_hostname = hostname;
    return RCM_OK;
}

static bool find_number(const void *blob, size_t len, enum address_tag tag, uint64_t *ret_values,
                        size_t count) {
    struct field field = {.len = 0};
    return find_field(blob, len, tag, &field) == RCM_OK && get_number(&field, ret_values, count);
}

enum rcmi_process_state rcmi_address_look(const void *blob, size_t len) {
    uint64_t pid, where[2], life[3], own[2];
    struct rcmi_process process;
    const char *hostname = "";
    if (!find_number(blob, len, TAG_PID, &pid, 1) || pid > INT32_MAX ||
        !find_number(blob, len, TAG_WHERE, where, 2) ||
        !find_number(blob, len, TAG_LIFE, life, 3) ||
        find_string(blob, len, TAG_HOSTNAME, &hostname) != RCM_OK)
        return RCMI_PROCESS_ELSEWHERE;
    rcmi_address_where(own);
    if (own[0] != where[0] || own[0] == 0)
        return RCMI_PROCESS_ELSEWHERE;
    rcmi_process_self(&process); /* for the kernel identity, which is the same */
    process.pid = (int)pid;
    process.start = life[0];
    process.pid_ns = life[1];
    process.time_ns = life[2];
    snprintf(process.host, sizeof process.host, "%s", hostname);
    return rcmi_process_look(&process);
}

/* ---- Network namespace, lists ---------------------------------------------------------------- */

static uint64_t hash_bytes(const void *bytes, size_t len) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

bool rcmi_where_is(const uint64_t a[2], const uint64_t b[2]) {
    return a[0] == b[0] && a[1] == b[1] && a[0] != 0;
}

bool rcmi_where_may_be(const uint64_t a[2], const uint64_t b[2]) {
    return rcmi_where_is(a, b) || a[0] == 0 || b[0] == 0;
}

void rcmi_address_where(uint64_t ret_where[2]) {
    char boot[64];
    struct stat ns;
    FILE *file = rcmi_fopen("/proc/sys/kernel/random/boot_id");
    size_t len = file ? fread(boot, 1, sizeof boot, file) : 0;
    if (file)
        fclose(file);
    ret_where[0] = ret_where[1] = 0;
    if (len < 32 || stat("/proc/self/ns/net", &ns) != 0)
        return;
    ret_where[0] = hash_bytes(boot, len);
    ret_where[1] = hash_bytes(&ns.st_ino, sizeof ns.st_ino);
}

bool rcmi_list_has(const char *list, const char *name) {
    size_t len = strlen(name);
    for (const char *at = list; *at;) {
        size_t item = strcspn(at, ",");
        if (item == len && memcmp(at, name, len) == 0)
            return true;
        at += item + (at[item] == ',');
    }
    return false;
}
