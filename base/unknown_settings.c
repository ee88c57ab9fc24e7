/* SPDX-License-Identifier: BSD-3-Clause */
/* Warns of environment names that look like settings. Their values are not shown: they may be
 * secrets. */
#include "unknown_settings.h"
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include "error.h"
#include "log.h"
#include "settings.h"

#define PREFIX "RINGCOMM_"
enum { NAME_MAX_BYTES = 64 };

static const char *const others[] = {"RINGCOMM_BENCH_", "RINGCOMM_TEST_"};

static bool is_known(const char *name) {
    struct rcm_setting setting;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return true;
    for (size_t i = 0; rcm_setting_at(i, &setting) == RCM_OK; i++)
        if (strcmp(name, setting.name) == 0)
            return true;
    return false;
}

static char upper(char c) {
    return (char)(c >= 'a' && c <= 'z' ? c + 'A' - 'a' : c);
}

/* Edit distance (insertions, deletions, changes), ignoring case. */
static int distance(const char *a, const char *b) {
    int row[NAME_MAX_BYTES + 1];
    const int len = (int)strlen(b);
    for (int j = 0; j <= len; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= len; j++) {
            const int changed = diagonal + (upper(a[i - 1]) != b[j - 1]);
            diagonal = row[j];
            const int moved = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = changed < moved ? changed : moved;
        }
    }
    return row[len];
}

static const char *nearest(const char *name) {
    const char *best = "";
    int least = NAME_MAX_BYTES + 1;
    struct rcm_setting setting;
    for (size_t i = 0; rcm_setting_at(i, &setting) == RCM_OK; i++) {
        const int far = distance(name, setting.name);
        if (far < least) {
            least = far;
            best = setting.name;
        }
    }
    return best;
}

void rcmi_settings_warn_names(void) {
    const struct rcmi_error kept = *rcmi_last_error();
    for (char **variable = environ; variable && *variable; variable++) {
        char name[NAME_MAX_BYTES];
        const size_t len = strcspn(*variable, "=");
        if (strncmp(*variable, PREFIX, sizeof PREFIX - 1) != 0 || len >= sizeof name)
            continue;
        memcpy(name, *variable, len);
        name[len] = '\0';
        if (!is_known(name))
            rcmi_log(RCMI_LOG_WARN,
                     "%s is set but has no effect: unknown setting. The nearest name is %s", name,
                     nearest(name));
    }
    *rcmi_last_error() = kept;
}
