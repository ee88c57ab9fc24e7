/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store controlled by a script: reads one command per line on stdin, prints one line per command.
 * Texts and values are in hex; "-" is the empty one. An answer begins with the name of the status,
 * followed by the result or the error text. torch_test.py is the script.
 *
 *   open URL MS | close | url
 *   set KEY VALUE | append KEY VALUE | multi_set KEY VALUE KEY VALUE ...
 *   get KEY MS | try_get KEY | multi_get MS KEY ... | wait MS KEY ...
 *   add KEY NUMBER | compare_set KEY EXPECTED DESIRED | delete KEY | count
 */
#include <inttypes.h>
#include <ringcomm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 256

static rcm_store *store;

struct text {
    char *data;
    size_t len;
};

/* In place: the hex form is longer than the text. */
static struct text unhex(char *word) {
    struct text text = {word, 0};
    if (strcmp(word, "-") == 0) {
        *word = '\0';
        return text;
    }
    for (char *at = word; at[0] && at[1]; at += 2) {
        const char pair[3] = {at[0], at[1], '\0'};
        text.data[text.len++] = (char)strtoul(pair, NULL, 16);
    }
    text.data[text.len] = '\0';
    return text;
}

static void print_value(const void *data, size_t len) {
    const unsigned char *bytes = data;
    putchar(' ');
    if (len == 0)
        putchar('-');
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
}

static void answer(rcm_status status) {
    printf("%s", rcm_status_name(status));
    if (status != RCM_OK)
        printf(" %s", rcm_last_error());
}

static void answer_value(rcm_status status, void *data, size_t len) {
    answer(status);
    if (status != RCM_OK)
        return;
    print_value(data, len);
    free(data);
}

/* ---- Commands ------------------------------------------------------------------------------ */

static void do_open(char **word, int n) {
    (void)n;
    answer(rcm_store_open(word[1], strtoll(word[2], NULL, 10), &store));
}

static void do_close(char **word, int n) {
    (void)word;
    (void)n;
    rcm_store_close(store);
    store = NULL;
    answer(RCM_OK);
}

static void do_url(char **word, int n) {
    (void)word;
    (void)n;
    printf("RCM_OK %s", rcm_store_url(store));
}

static void do_set(char **word, int n) {
    struct text key = unhex(word[1]), value = unhex(word[2]);
    (void)n;
    answer(rcm_store_set(store, key.data, value.data, value.len));
}

static void do_append(char **word, int n) {
    struct text key = unhex(word[1]), value = unhex(word[2]);
    (void)n;
    answer(rcm_store_append(store, key.data, value.data, value.len));
}

static void do_multi_set(char **word, int n) {
    const char *keys[WORDS_MAX];
    struct rcm_blob values[WORDS_MAX];
    size_t count = 0;
    for (int i = 1; i + 1 < n; i += 2, count++) {
        struct text value = unhex(word[i + 1]);
        keys[count] = unhex(word[i]).data;
        values[count] = (struct rcm_blob){value.data, value.len};
    }
    answer(rcm_store_multi_set(store, keys, values, count));
}

static void do_get(char **word, int n) {
    void *data = NULL;
    size_t len = 0;
    rcm_status status;
    struct text key = unhex(word[1]);
    if (n > 2)
        status = rcm_store_get(store, key.data, strtoll(word[2], NULL, 10), &data, &len);
    else
        status = rcm_store_try_get(store, key.data, &data, &len);
    answer_value(status, data, len);
}

static void do_multi_get(char **word, int n) {
    const char *keys[WORDS_MAX];
    struct rcm_blob values[WORDS_MAX];
    size_t count = 0;
    for (int i = 2; i < n; i++)
        keys[count++] = unhex(word[i]).data;
    rcm_status status = rcm_store_multi_get(store, keys, count, strtoll(word[1], NULL, 10), values);
    answer(status);
    for (size_t i = 0; i < count && status == RCM_OK; i++) {
        print_value(values[i].data, values[i].len);
        free(values[i].data);
    }
}

static void do_wait(char **word, int n) {
    const char *keys[WORDS_MAX];
    size_t count = 0;
    for (int i = 2; i < n; i++)
        keys[count++] = unhex(word[i]).data;
    answer(rcm_store_wait(store, keys, count, strtoll(word[1], NULL, 10)));
}

static void do_add(char **word, int n) {
    int64_t sum;
    (void)n;
    rcm_status status = rcm_store_add(store, unhex(word[1]).data, strtoll(word[2], NULL, 10), &sum);
    answer(status);
    if (status == RCM_OK)
        printf(" %" PRId64, sum);
}

static void do_compare_set(char **word, int n) {
    struct text key = unhex(word[1]), expected = unhex(word[2]), desired = unhex(word[3]);
    void *value = NULL;
    size_t len = 0;
    int swapped = 0;
    (void)n;
    rcm_status status = rcm_store_compare_set(store, key.data, expected.data, expected.len,
                                              desired.data, desired.len, &swapped, &value, &len);
    answer_value(status, value, len);
    if (status == RCM_OK)
        printf(" %d", swapped);
}

static void do_delete(char **word, int n) {
    int deleted = 0;
    (void)n;
    rcm_status status = rcm_store_delete(store, unhex(word[1]).data, &deleted);
    answer(status);
    if (status == RCM_OK)
        printf(" %d", deleted);
}

static void do_count(char **word, int n) {
    size_t count;
    (void)word;
    (void)n;
    rcm_status status = rcm_store_count(store, &count);
    answer(status);
    if (status == RCM_OK)
        printf(" %zu", count);
}

static const struct command {
    const char *name;
    int words; /* at least */
    void (*run)(char **word, int n);
} commands[] = {
    {"open", 3, do_open},     {"close", 1, do_close},   {"url", 1, do_url},
    {"set", 3, do_set},       {"append", 3, do_append}, {"multi_set", 3, do_multi_set},
    {"get", 3, do_get},       {"try_get", 2, do_get},   {"multi_get", 3, do_multi_get},
    {"wait", 3, do_wait},     {"add", 3, do_add},       {"compare_set", 4, do_compare_set},
    {"delete", 2, do_delete}, {"count", 1, do_count},
};

static void line_run(char *line) {
    char *word[WORDS_MAX], *save = NULL;
    int n = 0;
    for (char *w = strtok_r(line, " \n", &save); w && n < WORDS_MAX;
         w = strtok_r(NULL, " \n", &save))
        word[n++] = w;
    for (size_t i = 0; n > 0 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, word[0]) == 0 && n >= commands[i].words) {
            commands[i].run(word, n);
            return;
        }
    }
    printf("what?");
}

int main(void) {
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        line_run(line);
        putchar('\n');
        fflush(stdout);
    }
    free(line);
    rcm_store_close(store);
    return 0;
}
