/* SPDX-License-Identifier: BSD-3-Clause */
/* PTX text -> struct ptx_module: directives, kernels, parameters and global variables. */
#include "ptx_parse.h"
#include <stdio.h>

/* ---- module level --------------------------------------------------------------------------- */

static void parse_params(struct parser *ps) {
    struct ptx_function *fn = ps->fn;
    if (!ptx_accept(ps, "("))
        return;
    unsigned top = 0;
    while (!ptx_accept(ps, ")")) {
        ptx_expect(ps, ".param");
        struct variable v;
        ptx_parse_variable(ps, &v);
        fn->params = realloc(fn->params, (size_t)(fn->nparams + 1) * sizeof *fn->params);
        unsigned at = ptx_place(&top, &v);
        fn->params[fn->nparams++] = (struct param){strdup(v.name), at, v.size};
        ptx_add_symbol(ps, v.name, S_CONST)->value = at;
        ptx_accept(ps, ",");
    }
    fn->param_size = top;
}

static void function_hints(struct parser *ps) {
    while (ps->tok[0] == '.') {
        bool max = ptx_is(ps, ".maxntid") || ptx_is(ps, ".reqntid");
        ptx_next(ps);
        unsigned product = 1;
        while (ptx_number_token(ps)) {
            product *= (unsigned)ptx_integer(ps);
            ptx_accept(ps, ",");
        }
        if (max)
            ps->fn->max_threads = product;
    }
}

/* Extern shared arrays overlay each other after the static ones. */
static void declare_extern_shared(struct parser *ps) {
    for (int i = 0; i < ps->extern_shared.n; i++)
        ptx_add_symbol(ps, ps->extern_shared.at[i].name, S_CONST)->value =
            0xd15ea5e0000000ull + (unsigned)i;
}

/* The dynamic base is known only after the body: replaces the placeholders by the real offset. */
static void place_extern_shared(struct parser *ps) {
    struct ptx_function *fn = ps->fn;
    fn->dynamic_base = (fn->shared_size + 15) / 16 * 16;
    for (int c = 0; c < fn->nconsts; c++) {
        uint64_t index = fn->consts[c][0] - 0xd15ea5e0000000ull;
        if (index >= (uint64_t)ps->extern_shared.n)
            continue;
        for (int l = 0; l < LANES; l++)
            fn->consts[c][l] = fn->dynamic_base;
    }
}

static void parse_function(struct parser *ps, struct ptx_function *fn) {
    ps->fn = fn;
    ptx_go_to(ps, (struct position){fn->text, fn->line});
    ps->depth = 1;
    parse_params(ps);
    declare_extern_shared(ps);
    function_hints(ps);
    if (ptx_accept(ps, "{"))
        ptx_parse_body(ps);
    ptx_resolve_labels(ps);
    place_extern_shared(ps);
}

/* Called after a function, complete or not. */
static void leave_function(struct parser *ps) {
    ptx_forget_labels(ps);
    ps->depth = ps->instance = ps->call_depth = 0;
    ptx_leave_scope(ps, 0);
    ps->fn = NULL;
}

/* The position of a text of one or two characters, or the end. Not strstr: ASAN checks the whole
 * text on each call. */
static const char *find(const char *p, const char *end, const char *what) {
    while (p < end && (*p != what[0] || (what[1] && p[1] != what[1])))
        p++;
    return p;
}

/* Skips the text after a "{" up to its "}". */
static void skip_braces(struct parser *ps) {
    for (int depth = 1; depth && ps->p < ps->end; ps->p++) {
        const char *comment_end = ps->p[0] != '/'   ? NULL
                                  : ps->p[1] == '/' ? "\n"
                                  : ps->p[1] == '*' ? "*/"
                                                    : NULL;
        if (*ps->p == '"' || comment_end) {
            const char *end = find(ps->p + 1, ps->end, comment_end ? comment_end : "\"");
            for (; ps->p < end; ps->p++)
                ps->line += *ps->p == '\n';
        }
        ps->line += *ps->p == '\n';
        depth += (*ps->p == '{') - (*ps->p == '}');
    }
    ptx_next(ps);
}

static void skip_function(struct parser *ps) {
    while (ps->tok[0] && !ptx_is(ps, "{") && !ptx_is(ps, ";"))
        ptx_next(ps);
    if (ptx_is(ps, "{"))
        skip_braces(ps);
    else
        ptx_next(ps);
}

/* .entry name (params) hints { body }, which is parsed later */
static void note_entry(struct parser *ps) {
    struct ptx_function *fn = calloc(1, sizeof *fn);
    *PUSH(ps->module->functions) = fn;
    fn->module = ps->module;
    fn->name = strdup(ps->tok);
    fn->max_threads = 1024;
    memset(fn->special, -1, sizeof fn->special);
    ptx_next(ps);
    fn->text = ps->tok_start;
    fn->line = ps->line;
    skip_function(ps);
}

static void skip_parentheses(struct parser *ps, const char **inside) {
    *inside = NULL;
    if (!ptx_is(ps, "("))
        return;
    *inside = ps->p;
    ptx_skip_to(ps, ")");
}

/* .func (results) name (params) hints { body } */
static void note_function(struct parser *ps) {
    struct device_function f = {.line = ps->line};
    skip_parentheses(ps, &f.returns);
    f.name = strdup(ps->tok);
    ptx_next(ps);
    skip_parentheses(ps, &f.params);
    while (ps->tok[0] && !ptx_is(ps, "{") && !ptx_is(ps, ";"))
        ptx_next(ps);
    f.body = ptx_is(ps, "{") ? ps->p : NULL;
    f.body_line = ps->line;
    skip_function(ps);
    if (f.body)
        *PUSH(ps->device_functions) = f;
    else
        free(f.name);
}

static void initialise(struct parser *ps, const struct variable *v, uint8_t *to) {
    bool list = ptx_accept(ps, "{");
    size_t at = 0;
    do {
        uint64_t value = (uint64_t)ptx_integer(ps);
        if (at + v->element <= v->size)
            memcpy(to + at, &value, v->element);
        at += v->element;
    } while (list && ptx_accept(ps, ","));
    if (list)
        ptx_expect(ps, "}");
}

static void declare_global(struct parser *ps) {
    struct variable v;
    ptx_parse_variable(ps, &v);
    uint64_t addr = ps->module->env->alloc(v.size ? v.size : 1, v.align, ps->module->device);
    struct ptx_range range;
    if (!addr || !ps->module->env->find(addr, ps->module->device, &range))
        ptx_fail(ps, "no device memory for variable %s", v.name);
    uint8_t *host = (uint8_t *)(uintptr_t)(addr + (uint64_t)range.shift);
    memset(host, 0, v.size);
    if (ptx_accept(ps, "="))
        initialise(ps, &v, host);
    ptx_expect(ps, ";");
    *PUSH(ps->module->globals) = (struct global){strdup(v.name), addr, v.size};
    ptx_add_symbol(ps, v.name, S_CONST)->value = addr;
}

static void module_item(struct parser *ps) {
    bool is_extern = false;
    while (ptx_is(ps, ".visible") || ptx_is(ps, ".extern") || ptx_is(ps, ".weak") ||
           ptx_is(ps, ".common")) {
        is_extern |= ptx_is(ps, ".extern");
        ptx_next(ps);
    }
    if (ptx_accept(ps, ".entry"))
        note_entry(ps);
    else if (ptx_accept(ps, ".func"))
        note_function(ps);
    else if (ptx_accept(ps, ".shared")) {
        struct variable v;
        ptx_parse_variable(ps, &v);
        ptx_expect(ps, ";");
        PUSH(ps->extern_shared)->name = strdup(v.name);
    } else if (ptx_is(ps, ".global") || ptx_is(ps, ".const")) {
        ptx_next(ps);
        if (is_extern)
            ptx_fail(ps, "extern variables are not supported");
        declare_global(ps);
    } else if (ptx_is(ps, ".version") || ptx_is(ps, ".file") || ptx_is(ps, ".address_size"))
        ptx_skip_line(ps);
    else if (ptx_is(ps, ".target")) {
        ptx_next(ps);
        ps->module->target = strncmp(ps->tok, "sm_", 3) == 0 ? atoi(ps->tok + 3) : 0;
        ptx_skip_line(ps);
    } else if (ptx_is(ps, ".section"))
        skip_function(ps);
    else if (ptx_is(ps, ".alias") || ptx_is(ps, ".pragma"))
        ptx_skip_to(ps, ";");
    else
        ptx_fail(ps, "unexpected '%s'", ps->tok);
}

static void free_parser(struct parser *ps) {
    ptx_forget_labels(ps);
    ptx_leave_scope(ps, -1);
    free(ps->symbols.at);
    free(ps->fixups.at);
    free(ps->labels.at);
    for (int i = 0; i < ps->extern_shared.n; i++)
        free(ps->extern_shared.at[i].name);
    free(ps->extern_shared.at);
    for (int i = 0; i < ps->device_functions.n; i++)
        free(ps->device_functions.at[i].name);
    free(ps->device_functions.at);
    free(ps->text);
    free(ps);
}

static struct parser *new_parser(const char *text, size_t len, struct ptx_module *module) {
    struct parser *ps = calloc(1, sizeof *ps);
    ps->text = calloc(1, len + 1);
    memcpy(ps->text, text, len);
    ps->p = ps->text;
    ps->end = ps->text + len;
    ps->line = 1;
    ps->module = module;
    return ps;
}

static bool parse_module(struct parser *ps, char *why, size_t why_len) {
    ps->why = why;
    ps->why_len = why_len;
    if (setjmp(ps->error))
        return false;
    for (ptx_next(ps); ps->tok[0];)
        module_item(ps);
    return true;
}

struct ptx_module *ptx_module_load(const char *text, size_t len, const struct ptx_env *env,
                                   int device, char *why, size_t why_len) {
    struct ptx_module *module = calloc(1, sizeof *module);
    module->env = env;
    module->device = device;
    pthread_mutex_init(&module->lock, NULL);
    module->parser = new_parser(text, len, module);
    if (parse_module(module->parser, why, why_len))
        return module;
    ptx_module_free(module);
    return NULL;
}

static enum parsed parse_late(struct parser *ps, struct ptx_function *fn, char *why,
                              size_t why_len) {
    ps->why = why;
    ps->why_len = why_len;
    if (setjmp(ps->error))
        return PARSED_WRONG;
    parse_function(ps, fn);
    return PARSED_WELL;
}

bool ptx_prepare(struct ptx_function *fn, char *why, size_t why_len) {
    struct ptx_module *module = fn->module;
    pthread_mutex_lock(&module->lock);
    snprintf(why, why_len, "PTX of %s was already rejected", fn->name);
    if (fn->parsed == PARSED_NOT) {
        fn->parsed = parse_late(module->parser, fn, why, why_len);
        leave_function(module->parser);
    }
    const bool well = fn->parsed == PARSED_WELL;
    pthread_mutex_unlock(&module->lock);
    return well;
}

static void free_function(struct ptx_function *fn) {
    for (int i = 0; i < fn->ninsns; i++)
        free(fn->insns[i].text);
    for (int i = 0; i < fn->nparams; i++)
        free(fn->params[i].name);
    free(fn->insns);
    free(fn->params);
    free(fn->consts);
    free(fn->name);
    free(fn);
}

void ptx_module_free(struct ptx_module *module) {
    for (int i = 0; i < module->functions.n; i++)
        free_function(module->functions.at[i]);
    for (int i = 0; i < module->globals.n; i++) {
        module->env->free(module->globals.at[i].addr);
        free(module->globals.at[i].name);
    }
    free(module->functions.at);
    free(module->globals.at);
    free_parser(module->parser);
    pthread_mutex_destroy(&module->lock);
    free(module);
}

struct ptx_function *ptx_find_function(struct ptx_module *module, const char *name) {
    for (int i = 0; i < module->functions.n; i++)
        if (strcmp(module->functions.at[i]->name, name) == 0)
            return module->functions.at[i];
    return NULL;
}

bool ptx_find_global(struct ptx_module *module, const char *name, uint64_t *addr, size_t *size) {
    for (int i = 0; i < module->globals.n; i++)
        if (strcmp(module->globals.at[i].name, name) == 0) {
            *addr = module->globals.at[i].addr;
            *size = module->globals.at[i].size;
            return true;
        }
    return false;
}

int ptx_module_target(const struct ptx_module *module) {
    return module->target;
}

int ptx_function_target(const struct ptx_function *fn) {
    return ptx_module_target(fn->module);
}

const char *ptx_function_name(const struct ptx_function *fn) {
    return fn->name;
}

size_t ptx_param_size(const struct ptx_function *fn) {
    return fn->param_size;
}

int ptx_param_count(const struct ptx_function *fn) {
    return fn->nparams;
}

void ptx_param_at(const struct ptx_function *fn, int i, size_t *offset, size_t *size) {
    *offset = fn->params[i].offset;
    *size = fn->params[i].size;
}

unsigned ptx_static_shared(const struct ptx_function *fn) {
    return fn->shared_size;
}

unsigned ptx_max_threads(const struct ptx_function *fn) {
    return fn->max_threads;
}

/* The opcode of an instruction's text, without its guard. */
static void print_opcode(const char *text) {
    if (*text == '@') {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    printf("%.*s\n", (int)strcspn(text, " ;"), text);
}

static int report_function(struct ptx_function *fn, bool list) {
    char why[500];
    int n = 0;
    if (!ptx_prepare(fn, why, sizeof why))
        return printf("%s: %s\n", fn->name, why), 1;
    for (int i = 0; i < fn->ninsns; i++) {
        const struct insn *in = &fn->insns[i];
        if (list)
            print_opcode(in->text);
        else if (!in->exec)
            printf("%s: line %d: %s\n", fn->name, in->line, in->text);
        n += !in->exec;
    }
    return n;
}

int ptx_report(const struct ptx_module *module, bool list) {
    int n = 0;
    for (int i = 0; i < module->functions.n; i++)
        n += report_function(module->functions.at[i], list);
    return n;
}
