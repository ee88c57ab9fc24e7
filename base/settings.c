/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of RINGCOMM_ variables. Names of other programs (RANK, MASTER_ADDR) are read where
 * launchers are understood, in rendezvous/. */
#include "settings.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"
#include "log.h"

enum { SECRET_FILE_MAX = 4096 };

struct setting_row {
    const char *name, *default_value, *help;
};

/* An empty variable counts as one that is not set, so that scripts can pass it on blindly; the
 * secret is the exception, see rcmi_secret. */
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
    {"RINGCOMM_SECRET", "", "every connection proves that it knows this text; empty: no proof"},
    {"RINGCOMM_SECRET_FILE", "", "file that holds the secret instead"},
    {"RINGCOMM_PLAIN_STORE", "0", "1: allow a store that proves no secret although one is set"},
    {"RINGCOMM_LOG", "warn", "what goes to stderr: error, warn, info or debug"},
    {"RINGCOMM_TIMEOUT", "1800", "deadline of an operation in seconds"},
    {"RINGCOMM_WARN_AFTER", "30",
     "seconds without progress until a warning says who is waited for; 0: never"},
    {"RINGCOMM_PEER_TIMEOUT", "15", "seconds until a silent host or link counts as lost"},
    {"RINGCOMM_TRANSPORT", "auto", "transports that may be used: auto, or a list of shm,tcp"},
    {"RINGCOMM_CHAOS", "",
     "for tests: what transports chaos:shm, chaos:tcp do wrong, as seed=7,delay=500,fault=cut"},
    {"RINGCOMM_ALGORITHM", "",
     "algorithms by name, as all_reduce=binomial:0-32K,ring:32K-; empty: by price"},
    {"RINGCOMM_IFACE", "", "network interface of the tcp transport; empty: chosen by itself"},
    {"RINGCOMM_PORTS", "", "ports to listen on, as 20000-20100; empty: any free port"},
    {"RINGCOMM_KERNELS", "auto", "instruction set of the reduction kernels; auto: the best here"},
    {"RINGCOMM_COPY", "auto",
     "how some KiB are copied: vectors, strings (rep movsb); auto: whichever is better on this "
     "CPU"},
    {"RINGCOMM_VERBS_DEVICES", "",
     "RDMA ports, as mlx5_0:1,mlx5_1; empty: all that are active, of hardware"},
    {"RINGCOMM_VERBS_GID_INDEX", "-1", "address of an RDMA port; -1: RoCE v2 by IPv4 first"},
    {"RINGCOMM_VERBS_TRAFFIC_CLASS", "0", "traffic class of RoCE, and between subnets"},
    {"RINGCOMM_VERBS_SL", "0", "service level of InfiniBand, priority of RoCE"},
    {"RINGCOMM_VERBS_PKEY", "0", "partition of InfiniBand; 0: the port's first"},
    {"RINGCOMM_DEVICE", "auto",
     "the rank's CUDA device, by number or UUID; auto: by its number on its host; none"},
    {"RINGCOMM_CUDA_SYNC", "host",
     "what waits for operations of devices: host, which is all there is"},
    {"RINGCOMM_SLOT_BYTES", "auto",
     "bytes of one slot of a channel; auto: 128K, less for more than 64 ranks"},
    {"RINGCOMM_SLOTS", "4", "slots of a channel"},
    {"RINGCOMM_SLOT_MEMORY", "4G", "bytes that the slots of all channels of a rank may have"},
    {"RINGCOMM_SPIN_US", "auto",
     "microseconds of spinning before sleeping; auto: by CPUs and ranks of this host"},
    {"RINGCOMM_PROTOCOL", "",
     "which way data goes by size within a host, as get=64K-,eager=0-32K; ringcomm-info lists the "
     "names; rank 0's counts; empty: by CPU family"},
    {"RINGCOMM_TUNING", "",
     "file with the same, prices and algorithms, a name a line; rank 0's counts"},
    {"RINGCOMM_TRACE", "",
     "file for what each rank does, which Perfetto opens; %r in it is the rank; empty: none"},
};
enum { NROWS = sizeof table / sizeof table[0] };

static const struct {
    const char *name, *instead;
} retired[] = {
    {"RINGCOMM_FETCH", "RINGCOMM_PROTOCOL=get=never, or get=16K-, says which messages are got"},
    {"RINGCOMM_PLACE", "ringcomm-run --bind, or the launcher's own option, says where ranks run"},
};

void rcmi_settings_warn_retired(void) {
    for (size_t i = 0; i < sizeof retired / sizeof retired[0]; i++)
        if (getenv(retired[i].name))
            rcmi_log(RCMI_LOG_WARN, "%s is set and has no effect: %s", retired[i].name,
                     retired[i].instead);
}

static const struct setting_row *row_find(const char *name) {
    for (size_t i = 0; i < NROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* The variable, NULL if it is not set or empty. */
static const char *env_value(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *rcmi_setting(const char *name) {
    const struct setting_row *row = row_find(name);
    assert(row && "a setting that is not in the table");
    const char *value = env_value(name);
    if (!row)
        return "";
    return value ? value : row->default_value;
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static int suffix_shift(char suffix) {
    switch (suffix) {
    case 'k':
    case 'K':
        return 10;
    case 'm':
    case 'M':
        return 20;
    case 'g':
    case 'G':
        return 30;
    default:
        return -1;
    }
}

/* Digits and perhaps a suffix, nothing else; false also if it does not fit. */
static bool size_parse(const char *text, int64_t *ret_value) {
    int64_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c - '0', &value))
            return false;
    if (c == text)
        return false;
    if (*c) {
        int shift = suffix_shift(*c++);
        if (shift < 0 || *c || value > INT64_MAX >> shift)
            return false;
        value <<= shift;
    }
    *ret_value = value;
    return true;
}

rcm_status rcmi_parse_size(const char *text, int64_t *ret_value) {
    if (!size_parse(text, ret_value))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "'%s' is no size (a number, perhaps followed by K, M or G)", text);
    return RCM_OK;
}

rcm_status rcmi_setting_int(const char *name, int64_t min, int64_t max, int64_t *ret_value) {
    const char *text = rcmi_setting(name);
    bool negative = *text == '-';
    int64_t value;
    if (size_parse(text + negative, &value)) {
        value = negative ? -value : value;
        if (value >= min && value <= max) {
            *ret_value = value;
            return RCM_OK;
        }
    }
    return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%s is no whole number from %lld to %lld", name, text,
                     (long long)min, (long long)max);
}

/* A rank has channels to many others where there are many. */
static int64_t slot_bytes_of(int nranks) {
    int64_t bytes = 128 << 10;
    for (int most = 64; most < nranks && bytes > 16 << 10; most *= 2)
        bytes /= 2;
    return bytes;
}

rcm_status rcmi_setting_slot_bytes(int nranks, int64_t *ret_bytes) {
    if (strcmp(rcmi_setting("RINGCOMM_SLOT_BYTES"), "auto") == 0) {
        *ret_bytes = slot_bytes_of(nranks);
        return RCM_OK;
    }
    const rcm_status status = rcmi_setting_int("RINGCOMM_SLOT_BYTES", 1024, 1 << 26, ret_bytes);
    if (status == RCM_OK && *ret_bytes % 64)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_SLOT_BYTES=%lld is no multiple of 64",
                         (long long)*ret_bytes);
    return status;
}

/* ---- The secret ---------------------------------------------------------------------------- */

static rcm_status secret_copy(const char *text, size_t len, const char *origin, char **ret_secret) {
    if (len == 0) /* never "no secret": whoever set it expects that it protects */
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s is set but the secret is empty", origin);
    if (memchr(text, '\0', len))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s holds a zero byte", origin);
    char *copy = strndup(text, len);
    if (!copy)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "cannot copy %s", origin);
    *ret_secret = copy;
    return RCM_OK;
}

/* Up to len bytes of a file; -1 with errno. */
static ssize_t file_read(int fd, char *buf, size_t len) {
    size_t have = 0;
    while (have < len) {
        ssize_t got = read(fd, buf + have, len - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static rcm_status secret_from_file(const char *path, char **ret_secret) {
    char text[SECRET_FILE_MAX + 1];
    struct stat info;
    int fd = rcmi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t len = fd >= 0 ? file_read(fd, text, sizeof text) : -1;
    if (len < 0) {
        rcm_status status =
            rcmi_fail(RCM_ERR_CONFIG, errno, "cannot read RINGCOMM_SECRET_FILE=%s", path);
        rcmi_fd_close(&fd);
        return status;
    }
    if (fstat(fd, &info) == 0 && (info.st_mode & S_IROTH))
        rcmi_log(RCMI_LOG_WARN, "RINGCOMM_SECRET_FILE=%s can be read by every user", path);
    rcmi_fd_close(&fd);
    if (len > SECRET_FILE_MAX)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_SECRET_FILE=%s is longer than %d bytes", path,
                         SECRET_FILE_MAX);
    if (len > 0 && text[len - 1] == '\n')
        len--;
    return secret_copy(text, (size_t)len, "RINGCOMM_SECRET_FILE", ret_secret);
}

rcm_status rcmi_secret(char **ret_secret) {
    const char *text = getenv("RINGCOMM_SECRET");
    const char *path = getenv("RINGCOMM_SECRET_FILE");
    if (text && path)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "RINGCOMM_SECRET and RINGCOMM_SECRET_FILE=%s are both set", path);
    if (text)
        return secret_copy(text, strlen(text), "RINGCOMM_SECRET", ret_secret);
    if (path)
        return secret_from_file(path, ret_secret);
    *ret_secret = NULL;
    return RCM_OK;
}

/* ---- Shown to users ------------------------------------------------------------------------ */

rcm_status rcm_setting_at(size_t i, struct rcm_setting *ret_setting) {
    if (!ret_setting)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_setting is NULL");
    if (i >= NROWS)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there is no setting number %zu, only %d", i,
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
