/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Injected failures and delays: FAKECUDA_FAIL, by call number or by the calling place in the code;
 * FAKECUDA_SLOW; and the list of calling places, FAKECUDA_SITES.
 *
 * A place is named OBJECT+OFFSET: the file that the code was loaded from, and the offset of the
 * return address in it. It is the same in each run of one build.
 */
#include "fake.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SITES_MAX = 1024, SITE_TEXT = 300 };

static void site_name(const void *place, char *text) {
    Dl_info info = {.dli_fname = "?"};
    (void)dladdr(place, &info);
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(text, SITE_TEXT, "%s+0x%lx", slash ? slash + 1 : info.dli_fname,
             (unsigned long)((uintptr_t)place - (uintptr_t)info.dli_fbase));
}

/* True for the first call from there. */
static bool site_is_new(const void *place) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const void *sites[SITES_MAX];
    static int n;
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < n && sites[i] != place)
        i++;
    const bool is_new = i == n && n < SITES_MAX;
    if (is_new)
        sites[n++] = place;
    pthread_mutex_unlock(&lock);
    return is_new;
}

/* Appends a line "name OBJECT+OFFSET" in one write, so that lines of several processes do not
 * mix. */
static void site_note(const char *name, const char *site) {
    char line[SITE_TEXT + 100];
    const int len = snprintf(line, sizeof line, "%s %s\n", name, site);
    const int fd = open(fake_settings()->sites, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)len) != len) {
        fake_log("FAKECUDA_SITES=%s: cannot be written", fake_settings()->sites);
        exit(99);
    }
    close(fd);
}

/* Returns the text after the name in a setting "name" or "name:...", NULL if it has another name.
 * Names of the API have versions: cuMemAlloc is cuMemAlloc_v2 here. */
static const char *behind_name(const char *setting, const char *name) {
    const size_t len = strlen(name);
    const size_t plain = len > 3 && name[len - 3] == '_' && name[len - 2] == 'v' ? len - 3 : len;
    const bool same =
        setting && strncmp(setting, name, plain) == 0 && (!setting[plain] || setting[plain] == ':');
    return same ? setting + plain : NULL;
}

/* FAKECUDA_SLOW=name:ms: each call of name takes that long. */
void fake_take_time(const char *name) {
    const char *at = behind_name(fake_settings()->slow, name);
    unsigned ms = 0;
    if (at && sscanf(at, ":%u", &ms) == 1)
        usleep(ms * 1000);
}

/* name[:n[:code]]: the n-th call of it (default 1) returns code (default 999). */
static CUresult fail_by_number(const char *name) {
    static _Atomic int calls;
    const char *at = behind_name(fake_settings()->fail, name);
    int nth = 1, code = CUDA_ERROR_UNKNOWN;
    if (!at)
        return CUDA_SUCCESS;
    sscanf(at, ":%d:%d", &nth, &code);
    return atomic_fetch_add(&calls, 1) + 1 == nth ? (CUresult)code : CUDA_SUCCESS;
}

/* @OBJECT+OFFSET: the first call from there returns 999. */
static CUresult fail_by_site(const char *site) {
    static _Atomic bool failed;
    if (strcmp(fake_settings()->fail + 1, site) != 0 || atomic_exchange(&failed, true))
        return CUDA_SUCCESS;
    return CUDA_ERROR_UNKNOWN;
}

CUresult fake_injected(const char *name, const void *place) {
    const struct settings *s = fake_settings();
    const bool by_site = s->fail && s->fail[0] == '@';
    char site[SITE_TEXT];
    if (!s->sites && !by_site)
        return s->fail ? fail_by_number(name) : CUDA_SUCCESS;
    if (!site_is_new(place))
        return CUDA_SUCCESS;
    site_name(place, site);
    if (s->sites)
        site_note(name, site);
    return by_site ? fail_by_site(site) : CUDA_SUCCESS;
}
