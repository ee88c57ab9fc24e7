/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without libFuzzer. `replay DIRECTORY` runs it on each file there, then on each
 * file cut short and changed in a few hundred ways, always the same ones; `replay FILE...` only on
 * the files.
 *
 * The target must accept files named valid-* and reject those named bad-*. For other files and for
 * changed ones any verdict is fine. An input that breaks the target is saved as fuzz-TARGET.failed.
 */
#include "fuzz.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_MAX = 65536, CUTS = 96, CHANGES = 160 };

static uint8_t input[INPUT_MAX];
static size_t input_len;
static const char *target = "replay";

/* ---- Failures ------------------------------------------------------------------------------ */

static void save_input(void) {
    char path[256];
    snprintf(path, sizeof path, "fuzz-%s.failed", target);
    FILE *file = fopen(path, "wb");
    if (!file)
        return;
    fwrite(input, 1, input_len, file);
    fclose(file);
    fprintf(stderr, "the input is in %s\n", path);
}

static void on_signal(int number) {
    save_input(); /* not safe in a handler, but the process is lost anyway */
    signal(number, SIG_DFL);
    raise(number);
}

extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch_death(void) {
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(save_input);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (i == 0 || !__sanitizer_set_death_callback)
            signal(numbers[i], on_signal);
}

/* ---- One input ----------------------------------------------------------------------------- */

/* In an allocation of the exact size, so that reads past the end are found. */
static void run(const uint8_t *bytes, size_t len) {
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        exit(1);
    memcpy(copy, bytes, len);
    memmove(input, bytes, len);
    input_len = len;
    fuzz_verdict = FUZZ_UNKNOWN;
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static bool load(const char *path, uint8_t *bytes, size_t *ret_len) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    *ret_len = fread(bytes, 1, INPUT_MAX, file);
    bool whole = fgetc(file) == EOF;
    fclose(file);
    if (!whole)
        fprintf(stderr, "%s: longer than %d bytes\n", path, INPUT_MAX);
    return whole;
}

static bool check(const char *name, const uint8_t *bytes, size_t len) {
    static const char *const words[] = {"has no opinion of", "accepts", "refuses"};
    enum fuzz_verdict wanted = strncmp(name, "valid-", 6) == 0 ? FUZZ_ACCEPTED
                               : strncmp(name, "bad-", 4) == 0 ? FUZZ_REFUSED
                                                               : FUZZ_UNKNOWN;
    run(bytes, len);
    if (wanted == FUZZ_UNKNOWN || fuzz_verdict == wanted)
        return true;
    fprintf(stderr, "%s %s %s: %s\n", target, words[fuzz_verdict], name, rcm_last_error());
    return false;
}

/* ---- Variations ---------------------------------------------------------------------------- */

static uint32_t random_next(uint32_t *state) { /* xorshift: the same everywhere */
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void change(uint8_t *bytes, size_t len, uint32_t *random) {
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff};
    for (uint32_t n = 1 + random_next(random) % 4; n > 0 && len > 0; n--) {
        uint8_t *at = bytes + random_next(random) % len;
        uint32_t kind = random_next(random);
        if (kind % 3 == 0)
            *at = odd[kind / 3 % sizeof odd];
        else if (kind % 3 == 1)
            *at ^= (uint8_t)(1u << kind / 3 % 8);
        else
            *at = (uint8_t)(kind >> 8);
    }
}

static void vary(const uint8_t *bytes, size_t len) {
    static uint8_t changed[INPUT_MAX];
    uint32_t random = 2463534242u;
    size_t step = len / CUTS + 1;
    for (size_t cut = 0; cut < len; cut += step)
        run(bytes, cut);
    for (int i = 0; i < CHANGES; i++) {
        memcpy(changed, bytes, len);
        change(changed, len, &random);
        run(changed, len);
    }
}

/* ---- A directory --------------------------------------------------------------------------- */

struct tally {
    int seeds, valid, bad, failed;
};

static void seed(const char *dir, const char *name, struct tally *tally) {
    static uint8_t bytes[INPUT_MAX];
    char path[4096];
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    printf("%s\n", name);
    fflush(stdout);
    tally->seeds++;
    tally->valid += strncmp(name, "valid-", 6) == 0;
    tally->bad += strncmp(name, "bad-", 4) == 0;
    if (!load(path, bytes, &len) || !check(name, bytes, len))
        tally->failed++;
    else
        vary(bytes, len);
}

static int replay_directory(const char *dir) {
    struct dirent **names;
    struct tally tally = {0};
    int n = scandir(dir, &names, NULL, alphasort);
    if (n < 0) {
        fprintf(stderr, "%s: %s\n", dir, strerror(errno));
        return 1;
    }
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            seed(dir, names[i]->d_name, &tally);
        free(names[i]);
    }
    free(names);
    printf("%s: %d seeds, %d of them valid and %d bad; %d failed\n", target, tally.seeds,
           tally.valid, tally.bad, tally.failed);
    /* Without both kinds nothing shows that the target reaches its decoder. */
    if (tally.valid == 0 || tally.bad == 0)
        fprintf(stderr, "%s needs at least one valid and one bad seed\n", dir);
    return tally.failed > 0 || tally.valid == 0 || tally.bad == 0;
}

static int replay_file(const char *path) {
    static uint8_t bytes[INPUT_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = 0;
    return load(path, bytes, &len) && check(slash ? slash + 1 : path, bytes, len) ? 0 : 1;
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    struct stat info;
    int result = 0;
    target = slash ? slash + 1 : argv[0];
    watch_death();
    if (argc == 2 && stat(argv[1], &info) == 0 && S_ISDIR(info.st_mode))
        return replay_directory(argv[1]);
    for (int i = 1; i < argc; i++)
        result |= replay_file(argv[i]);
    return argc < 2 ? 2 : result;
}
