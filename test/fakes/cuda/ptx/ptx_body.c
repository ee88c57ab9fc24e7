/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of functions in PTX text: instructions, variables, labels, and calls, which are
 * inlined. */
#include "ptx_parse.h"
#include <ctype.h>

/* ---- statements of a body -------------------------------------------------------------------- */

static void parse_guard(struct parser *ps, struct insn *in) {
    in->guard = -1;
    if (!ptx_accept(ps, "@"))
        return;
    in->guard_neg = ptx_accept(ps, "!");
    int index;
    struct symbol *s = ptx_find_symbol(ps, ps->tok, &index);
    if (!s || s->kind != S_PRED)
        ptx_fail(ps, "guard '%s' is not a predicate", ps->tok);
    in->guard = s->first + index;
    ptx_next(ps);
}

static char *insn_text(const char *from, const char *to) {
    char *text = malloc((size_t)(to - from) + 1), *out = text;
    for (; from < to; from++)
        *out++ = isspace((unsigned char)*from) ? ' ' : *from;
    *out = 0;
    return text;
}

static void skip_unsupported(struct parser *ps) {
    while (ps->tok[0] && !ptx_is(ps, ";"))
        ptx_next(ps);
}

static void append_insn(struct ptx_function *fn, const struct insn *in) {
    if (fn->ninsns == fn->cap_insns) {
        fn->cap_insns = fn->cap_insns ? 2 * fn->cap_insns : 128;
        fn->insns = realloc(fn->insns, (size_t)fn->cap_insns * sizeof *fn->insns);
    }
    fn->insns[fn->ninsns++] = *in;
}

static void parse_operands(struct parser *ps, struct insn *in) {
    while (!ptx_is(ps, ";")) {
        if (in->nops == MAX_OPERANDS) {
            skip_unsupported(ps);
            return;
        }
        ptx_parse_operand(ps, &in->op[in->nops], ps->fn->ninsns, in->nops);
        in->nops++;
        if (!ptx_accept(ps, ",") && !ptx_is(ps, ";"))
            ptx_fail(ps, "expected ',' or ';', found '%s'", ps->tok);
    }
}

/* `ret` in an inlined body is a branch to its end. */
static void return_from_call(struct parser *ps, struct insn *in) {
    *PUSH(ps->fixups) =
        (struct fixup){ps->fn->ninsns, 0, ps->line, ps->instance, strdup(END_OF_CALL)};
    in->op[0].kind = O_LABEL;
    in->nops = 1;
}

static bool parse_call(struct parser *ps);

static void parse_instruction(struct parser *ps) {
    struct insn in = {.line = ps->line};
    const char *from = ps->tok_start;
    parse_guard(ps, &in);
    char opcode[TOKEN_MAX];
    strcpy(opcode, ps->tok);
    bool call = strncmp(opcode, "call", 4) == 0;
    if (call && in.guard < 0 && parse_call(ps))
        return;
    bool assertion = false;
    ptx_next(ps);
    if (call || strncmp(opcode, "brx", 3) == 0)
        while (ps->tok[0] && !ptx_is(ps, ";")) {
            assertion |= ptx_is(ps, "__assertfail");
            ptx_next(ps);
        }
    parse_operands(ps, &in);
    in.text = insn_text(from, ps->p);
    if (ps->instance && strncmp(opcode, "ret", 3) == 0) {
        return_from_call(ps, &in);
        strcpy(opcode, "bra");
    }
    ptx_next(ps);
    ptx_decode(&in, assertion ? "trap" : opcode);
    append_insn(ps->fn, &in);
}

static void declare_registers(struct parser *ps) {
    bool pred = ptx_is(ps, ".pred");
    ptx_directive_size(ps);
    ptx_next(ps);
    do {
        struct symbol *s = ptx_add_symbol(ps, ps->tok, pred ? S_PRED : S_REG);
        ptx_next(ps);
        if (ptx_accept(ps, "<")) {
            s->count = (int)ptx_integer(ps);
            ptx_expect(ps, ">");
        }
        int n = s->count ? s->count : 1, *counter = pred ? &ps->fn->npreds : &ps->fn->nregs;
        s->first = *counter;
        *counter += n;
    } while (ptx_accept(ps, ","));
    ptx_expect(ps, ";");
}

/* [.align n] [.v4] .type name [dims]; leaves the parser after the dimensions */
void ptx_parse_variable(struct parser *ps, struct variable *v) {
    unsigned vec = 1;
    v->align = 0;
    while (ptx_is(ps, ".align") || ptx_is(ps, ".v2") || ptx_is(ps, ".v4") || ptx_is(ps, ".ptr") ||
           ptx_is(ps, ".space")) {
        if (ptx_is(ps, ".align")) {
            ptx_next(ps);
            v->align = (size_t)ptx_integer(ps);
        } else {
            vec = ptx_is(ps, ".v2") ? 2 : ptx_is(ps, ".v4") ? 4 : 1;
            ptx_next(ps);
        }
    }
    v->element = ptx_directive_size(ps);
    ptx_next(ps);
    while (ptx_is(ps, ".ptr") || ptx_is(ps, ".global") ||
           ptx_is(ps, ".align")) { /* kernel parameter hints */
        bool align = ptx_is(ps, ".align");
        ptx_next(ps);
        if (align)
            ptx_integer(ps);
    }
    strcpy(v->name, ps->tok);
    ptx_next(ps);
    v->size = (size_t)v->element * vec;
    if (!v->align)
        v->align = v->size;
    while (ptx_accept(ps, "[")) {
        v->size *= ptx_is(ps, "]") ? 0 : (size_t)ptx_integer(ps);
        ptx_expect(ps, "]");
    }
}

unsigned ptx_place(unsigned *top, const struct variable *v) {
    unsigned at = (*top + (unsigned)v->align - 1) / (unsigned)v->align * (unsigned)v->align;
    *top = at + (unsigned)v->size;
    return at;
}

static void declare_local(struct parser *ps, bool shared) {
    struct variable v;
    ptx_parse_variable(ps, &v);
    ptx_expect(ps, ";");
    unsigned at = ptx_place(shared ? &ps->fn->shared_size : &ps->fn->local_size, &v);
    ptx_add_symbol(ps, v.name, S_CONST)->value = at;
}

static void body_directive(struct parser *ps) {
    if (ptx_accept(ps, ".reg"))
        declare_registers(ps);
    else if (ptx_accept(ps, ".shared"))
        declare_local(ps, true);
    else if (ptx_accept(ps, ".local"))
        declare_local(ps, false);
    else if (ptx_accept(ps, ".param")) {
        declare_local(ps, false);
        ps->symbols.at[ps->symbols.n - 1].value |= CALL_PARAM;
    } else if (ptx_is(ps, ".loc") || ptx_is(ps, ".file"))
        ptx_skip_line(ps);
    else
        ptx_skip_to(ps, ";"); /* .pragma */
}

static bool label_here(struct parser *ps) {
    const char *p = ps->p;
    while (p < ps->end && (*p == ' ' || *p == '\t'))
        p++;
    return p < ps->end && *p == ':' && ptx_word_char(ps->tok[0]) && ps->tok[0] != '.';
}

void ptx_parse_body(struct parser *ps) {
    int base = ps->depth++;
    while (ps->depth > base) {
        if (!ps->tok[0])
            ptx_fail(ps, "unexpected end of the text in a function");
        if (ptx_accept(ps, "{"))
            ps->depth++;
        else if (ptx_is(ps, "}")) {
            ps->depth--;
            ptx_leave_scope(ps, ps->depth);
            ptx_next(ps);
        } else if (ptx_accept(ps, ";"))
            ;
        else if (label_here(ps)) {
            *PUSH(ps->labels) = (struct label){strdup(ps->tok), ps->fn->ninsns, ps->instance};
            ptx_next(ps);
            ptx_expect(ps, ":");
        } else if (ps->tok[0] == '.')
            body_directive(ps);
        else
            parse_instruction(ps);
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

void ptx_go_to(struct parser *ps, struct position at) {
    ps->p = at.p;
    ps->line = at.line;
    ptx_next(ps);
}

/* The addresses of the actual parameters "(a, b)"; none if there is no parenthesis. */
static int call_arguments(struct parser *ps, uint64_t *value) {
    int n = 0, index;
    if (!ptx_accept(ps, "("))
        return 0;
    while (!ptx_accept(ps, ")")) {
        struct symbol *s = ptx_find_symbol(ps, ps->tok, &index);
        if (n == 32 || !s || s->kind != S_CONST)
            ptx_fail(ps, "call argument '%s' is not a parameter", ps->tok);
        value[n++] = s->value;
        ptx_next(ps);
        ptx_accept(ps, ",");
    }
    ptx_accept(ps, ",");
    return n;
}

/* Binds the formal parameters to the actual ones. */
static void bind_formals(struct parser *ps, const char *list, int line, const uint64_t *value,
                         int n) {
    if (!list)
        return;
    ptx_go_to(ps, (struct position){list, line});
    for (int i = 0; !ptx_is(ps, ")") && i < n; i++) {
        struct variable v;
        ptx_expect(ps, ".param");
        ptx_parse_variable(ps, &v);
        ptx_add_symbol(ps, v.name, S_CONST)->value = value[i];
        ptx_accept(ps, ",");
    }
}

static void inline_body(struct parser *ps, const struct device_function *f, uint64_t *results,
                        int nresults, uint64_t *args, int nargs) {
    int outer = ps->instance;
    ps->instance = ++ps->instances;
    ps->call_depth++;
    ps->depth++;
    bind_formals(ps, f->returns, f->line, results, nresults);
    bind_formals(ps, f->params, f->line, args, nargs);
    ptx_go_to(ps, (struct position){f->body, f->body_line});
    ptx_parse_body(ps);
    ps->depth--;
    ptx_leave_scope(ps, ps->depth);
    *PUSH(ps->labels) = (struct label){strdup(END_OF_CALL), ps->fn->ninsns, ps->instance};
    ps->call_depth--;
    ps->instance = outer;
}

static const struct device_function *find_device_function(struct parser *ps, const char *name) {
    for (int i = 0; i < ps->device_functions.n; i++)
        if (strcmp(ps->device_functions.at[i].name, name) == 0)
            return &ps->device_functions.at[i];
    return NULL;
}

/* call (r), f, (a, b); false, with nothing consumed, if f has no body or recurses */
static bool parse_call(struct parser *ps) {
    struct position start = {ps->tok_start, ps->line};
    uint64_t results[32], args[32];
    ptx_next(ps);
    int nresults = call_arguments(ps, results);
    const struct device_function *f = find_device_function(ps, ps->tok);
    if (!f || ps->call_depth == MAX_CALL_DEPTH) {
        ptx_go_to(ps, start);
        return false;
    }
    ptx_next(ps);
    ptx_accept(ps, ",");
    int nargs = call_arguments(ps, args);
    struct position after = {ps->tok_start, ps->line};
    inline_body(ps, f, results, nresults, args, nargs);
    ptx_go_to(ps, after);
    ptx_expect(ps, ";");
    return true;
}

void ptx_resolve_labels(struct parser *ps) {
    for (int i = 0; i < ps->fixups.n; i++) {
        struct fixup *f = &ps->fixups.at[i];
        int pc = -1;
        for (int k = 0; k < ps->labels.n && pc < 0; k++)
            if (ps->labels.at[k].instance == f->instance &&
                strcmp(ps->labels.at[k].name, f->name) == 0)
                pc = ps->labels.at[k].pc;
        ps->line = f->line;
        if (pc < 0)
            ptx_fail(ps, "unknown name '%s'", f->name);
        ps->fn->insns[f->insn].op[f->operand].slot = pc;
    }
}

void ptx_forget_labels(struct parser *ps) {
    for (int i = 0; i < ps->fixups.n; i++)
        free(ps->fixups.at[i].name);
    for (int k = 0; k < ps->labels.n; k++)
        free(ps->labels.at[k].name);
    ps->fixups.n = ps->labels.n = 0;
}
