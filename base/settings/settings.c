/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of RINGCOMM_ variables. rendezvous/ reads variables of other programs (RANK,
 * MASTER_ADDR). */
#include "settings.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "error.h"
#include "numbers.h"

struct setting_row {
    const char *name, *default_value, *help;
};

/* An empty variable counts as not set, so that scripts can pass it on unchecked. Exception: the
 * secret, see rcmi_secret. */
static const struct setting_row table[] = {
    {"RINGCOMM_RANK", "", "rank of this process; empty: the launcher's (RANK)"},
    {"RINGCOMM_WORLD_SIZE", "", "number of ranks; empty: the launcher's (WORLD_SIZE)"},
    {"RINGCOMM_LOCAL_RANK", "", "rank within this host; empty: the launcher's (LOCAL_RANK)"},
    {"RINGCOMM_LOCAL_WORLD_SIZE", "",
     "number of ranks on this host; empty: the launcher's (LOCAL_WORLD_SIZE)"},
    {"RINGCOMM_URL", "",
     "where ranks meet: env://, tcp://host:port, file:///path; empty: env:// (MASTER_ADDR)"},
    {"RINGCOMM_JOB_ID", "",
     "name of this job, the same on all its ranks and no other job's; empty: the launcher's "
     "(TORCHELASTIC_RUN_ID)"},
    {"RINGCOMM_HOST_ID", "",
     "name of this host, only ranks of equal name share memory; empty: the kernel's boot id"},
    {"RINGCOMM_SECRET", "", "shared secret that every connection must prove; empty: no proof"},
    {"RINGCOMM_SECRET_FILE", "", "file that contains the secret instead"},
    {"RINGCOMM_PLAIN_STORE", "0", "1: allow a store without proof although a secret is set"},
    {"RINGCOMM_LOG", "warn", "log level on stderr: error, warn, info or debug"},
    {"RINGCOMM_TIMEOUT", "1800",
     "deadline of an operation, in seconds or with a unit, as 90s, 10m"},
    {"RINGCOMM_WARN_AFTER", "30",
     "seconds, or with a unit, without progress until a warning names the awaited rank; 0: never"},
    {"RINGCOMM_PEER_TIMEOUT", "15",
     "seconds, or with a unit, until a silent host or link counts as lost"},
    {"RINGCOMM_TRANSPORT", "auto",
     "transports to use: auto, or a list of those that ringcomm-info shows, as shm,tcp"},
    {"RINGCOMM_CHAOS", "",
     "for tests: faults that chaos:shm, chaos:tcp inject, as seed=7,delay=500,fault=cut"},
    {"RINGCOMM_ALGORITHM", "",
     "algorithms by name, as all_reduce=binomial:0-32K,ring:32K-; empty: by price"},
    {"RINGCOMM_IFACE", "",
     "interfaces of the tcp transport: names, addresses or networks, as eth0,10.1.0.0/16; empty: "
     "automatic"},
    {"RINGCOMM_PORTS", "", "ports to listen on, as 20000-20100; empty: any free port"},
    {"RINGCOMM_KERNELS", "auto", "instruction set of the reduction kernels; auto: the best here"},
    {"RINGCOMM_COPY", "auto",
     "copy method for some KiB: vectors, strings (rep movsb); auto: the faster one on this CPU"},
    {"RINGCOMM_VERBS_DEVICES", "",
     "RDMA ports, as mlx5_0:1,mlx5_1; empty: all active hardware ports"},
    {"RINGCOMM_VERBS_GID_INDEX", "-1", "address of an RDMA port; -1: RoCE v2 by IPv4 first"},
    {"RINGCOMM_VERBS_TRAFFIC_CLASS", "0", "traffic class for RoCE and between subnets"},
    {"RINGCOMM_VERBS_SL", "0", "service level of InfiniBand, priority of RoCE"},
    {"RINGCOMM_VERBS_PKEY", "0", "partition of InfiniBand; 0: the port's first"},
    {"RINGCOMM_DEVICE", "auto",
     "CUDA device of the rank, by number or UUID; auto: by its number on its host; none"},
    {"RINGCOMM_CHECK_MEMORY", "0",
     "1: for debugging: reject calls whose buffer is registered memory that was freed since"},
    {"RINGCOMM_SLOT_BYTES", "auto",
     "bytes of one slot of a channel; auto: 128K, less for more than 64 ranks"},
    {"RINGCOMM_SLOTS", "4", "slots of a channel"},
    {"RINGCOMM_SLOT_MEMORY", "4G", "limit of the slot memory of all channels of a rank, in bytes"},
    {"RINGCOMM_SPIN_US", "auto",
     "microseconds, or with a unit, of spinning before sleeping; auto: by CPUs and ranks of this "
     "host"},
    {"RINGCOMM_PROTOCOL", "",
     "protocol thresholds by size within a host, as get=64K-,eager=0-32K; ringcomm-info lists the "
     "names; rank 0's value applies; empty: by CPU family"},
    {"RINGCOMM_NEAR", "auto",
     "1: all ranks of this host share a last-level cache, 0: none do; auto: by RINGCOMM_TUNING, "
     "else by "
     "affinity masks; 0 in a virtual machine"},
    {"RINGCOMM_TUNING", "",
     "file of protocol thresholds, prices and algorithms, one per line; rank 0's file applies"},
    {"RINGCOMM_TRACE", "",
     "trace file of each rank, for Perfetto; %r stands for the rank; empty: none"},
    {"RINGCOMM_TORCH_AS", "",
     "read by ringcomm.torch: torch backend names that select ringcomm, as gloo,mpi"},
    {"RINGCOMM_NCCL_MISSING", "0",
     "read by libnccl.so.2: 1 prints each call of a function of NCCL that is not built"},
};
enum { NROWS = sizeof table / sizeof table[0] };

/* Settings with lower-case words of ours as values: capitals mean the same. */
static const char *const worded[] = {
    "RINGCOMM_LOG", "RINGCOMM_TRANSPORT", "RINGCOMM_ALGORITHM", "RINGCOMM_KERNELS", "RINGCOMM_COPY",
};

static bool has_words(const char *name) {
    for (size_t i = 0; i < sizeof worded / sizeof worded[0]; i++)
        if (strcmp(worded[i], name) == 0)
            return true;
    return false;
}

static const struct setting_row *row_find(const char *name) {
    for (size_t i = 0; i < NROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* The variable; NULL if it is not set or empty. */
static const char *env_value(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The value in lower case, ASCII only, independent of the locale. The caller may keep it although
 * the environment may change, so each text is kept for good. There are few. */
static const char *in_lower_case(const char *value) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct kept {
        struct kept *next;
        char text[];
    } * all;
    const size_t len = strlen(value);
    struct kept *text = malloc(sizeof(*text) + len + 1), *same;
    if (!text)
        return value;
    for (size_t i = 0; i <= len; i++)
        text->text[i] =
            (char)(value[i] >= 'A' && value[i] <= 'Z' ? value[i] + 'a' - 'A' : value[i]);
    pthread_mutex_lock(&lock);
    for (same = all; same && strcmp(same->text, text->text) != 0;)
        same = same->next;
    if (same) {
        free(text);
    } else {
        text->next = all;
        same = all = text;
    }
    pthread_mutex_unlock(&lock);
    return same->text;
}

const char *rcmi_setting(const char *name) {
    const struct setting_row *row = row_find(name);
    assert(row && "a setting that is not in the table");
    const char *value = env_value(name);
    if (!row)
        return "";
    if (value && has_words(name) && strpbrk(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        return in_lower_case(value);
    return value ? value : row->default_value;
}

/* ---- Numbers ------------------------------------------------------------------------------- */

rcm_status rcmi_parse_size(const char *text, int64_t *ret_value) {
    if (!rcmi_read_size(text, ret_value))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "'%s' is not a size (a number, optionally followed by K, M or G)", text);
    return RCM_OK;
}

static bool in_range(int64_t value, int64_t min, int64_t max, int64_t *ret_value) {
    if (value < min || value > max)
        return false;
    *ret_value = value;
    return true;
}

rcm_status rcmi_setting_int(const char *name, int64_t min, int64_t max, int64_t *ret_value) {
    const char *text = rcmi_setting(name);
    int64_t value;
    if (rcmi_read_count(text, &value) && in_range(value, min, max, ret_value))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%s is not a whole number from %lld to %lld", name, text,
                     (long long)min, (long long)max);
}

rcm_status rcmi_setting_size(const char *name, int64_t min, int64_t max, int64_t *ret_value) {
    const char *text = rcmi_setting(name);
    int64_t value;
    if (rcmi_read_size(text, &value) && in_range(value, min, max, ret_value))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s=%s is not a size from %lld to %lld bytes (a number, optionally followed "
                     "by K, M or G)",
                     name, text, (long long)min, (long long)max);
}

rcm_status rcmi_setting_duration(const char *name, int64_t unit_ns, int64_t min_ns, int64_t max_ns,
                                 int64_t *ret_ns) {
    char least[RCMI_DURATION_TEXT], most[RCMI_DURATION_TEXT], unit[RCMI_DURATION_TEXT];
    const char *text = rcmi_setting(name);
    int64_t ns;
    if (rcmi_read_duration(text, unit_ns, &ns) && in_range(ns, min_ns, max_ns, ret_ns))
        return RCM_OK;
    return rcmi_fail(
        RCM_ERR_CONFIG, 0,
        "%s=%s is not a duration from %s to %s (a number with us, ms, s, m or h; without a unit "
        "it counts %s)",
        name, text, rcmi_duration_text(min_ns, least), rcmi_duration_text(max_ns, most),
        rcmi_duration_text(unit_ns, unit));
}

rcm_status rcmi_setting_peer_timeout(int64_t *ret_ms) {
    int64_t ns = 0;
    rcm_status status = rcmi_setting_duration("RINGCOMM_PEER_TIMEOUT", RCMI_SECOND, RCMI_SECOND,
                                              1000000 * RCMI_SECOND, &ns);
    if (status == RCM_OK)
        *ret_ms = ns / 1000000;
    return status;
}

rcm_status rcmi_setting_warn_after(int64_t *ret_ns) {
    return rcmi_setting_duration("RINGCOMM_WARN_AFTER", RCMI_SECOND, 0, 1000000 * RCMI_SECOND,
                                 ret_ns);
}

/* With many ranks a rank has channels to many others. */
static int64_t slot_bytes_of(int nranks) {
    int64_t bytes = 128 << 10;
    for (int most = 64; most < nranks && bytes > 16 << 10; most *= 2)
        bytes /= 2;
    return bytes;
}

rcm_status rcmi_setting_slot_bytes(int nranks, int64_t *ret_bytes) {
    if (strcasecmp(rcmi_setting("RINGCOMM_SLOT_BYTES"), "auto") == 0) {
        *ret_bytes = slot_bytes_of(nranks);
        return RCM_OK;
    }
    const rcm_status status = rcmi_setting_size("RINGCOMM_SLOT_BYTES", 1024, 1 << 26, ret_bytes);
    if (status == RCM_OK && *ret_bytes % 64)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_SLOT_BYTES=%lld is not a multiple of 64",
                         (long long)*ret_bytes);
    return status;
}

/* ---- Shown to users ------------------------------------------------------------------------ */

rcm_status rcm_setting_at(size_t i, struct rcm_setting *ret_setting) {
    if (!ret_setting)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_setting is NULL");
    if (i >= NROWS)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "setting number %zu does not exist: there are %d", i,
                         (int)NROWS);
    const struct setting_row *row = &table[i];
    const char *value = env_value(row->name);
    bool hidden = strcmp(row->name, "RINGCOMM_SECRET") == 0;
    *ret_setting = (struct rcm_setting){
        .name = row->name,
        .value = !value   ? row->default_value
                 : hidden ? "(set)"
                          : value,
        .default_value = row->default_value,
        .origin = value ? "environment" : "default",
        .help = row->help,
    };
    return RCM_OK;
}
