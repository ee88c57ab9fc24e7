/* SPDX-License-Identifier: BSD-3-Clause */
/* PTX text -> struct ptx_module: directives, variables, functions, labels and operands. */
#include "ptx_internal.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MAX 512

enum symbol_kind { S_REG, S_PRED, S_CONST, S_NONE };

struct symbol {
    char *name;
    enum symbol_kind kind;
    int first;      /* slot, predicate, or unused */
    int count;      /* %r<count>; 0: a single name */
    uint64_t value; /* S_CONST: address or offset */
    int depth;
};

struct global {
    char *name;
    uint64_t addr;
    size_t size;
};

/* Labels of a body that is inlined twice differ by their instance. */
struct fixup {
    int insn, operand, line, instance;
    char *name;
};

struct label {
    char *name;
    int pc, instance;
};

/* A device function: where its signature begins. Calls are inlined while parsing. */
struct device_function {
    char *name;
    const char *returns, *params; /* text behind the parentheses' "(", NULL if there is none */
    const char *body;
    int line, body_line;
};
#define END_OF_CALL    "<end of the call>"
#define MAX_CALL_DEPTH 16

#define LIST(type, name)                                                                           \
    struct {                                                                                       \
        type *at;                                                                                  \
        int n, cap;                                                                                \
    } name

#define PUSH(list)                                                                                 \
    ((list).n == (list).cap                                                                        \
         ? ((list).cap = (list).cap ? 2 * (list).cap : 64,                                         \
            (list).at = realloc((list).at, (size_t)(list).cap * sizeof *(list).at))                \
         : (list).at,                                                                              \
     memset(&(list).at[(list).n], 0, sizeof *(list).at), &(list).at[(list).n++])

struct ptx_module {
    const struct ptx_env *env;
    int device, target;
    LIST(struct ptx_function *, functions);
    LIST(struct global, globals);
};

struct parser {
    const char *p, *end;
    int line;
    char tok[TOKEN_MAX]; /* the current token; empty at the end of the text */
    const char *tok_start;
    struct ptx_module *module;
    struct ptx_function *fn;
    LIST(struct symbol, symbols);
    LIST(struct fixup, fixups);
    LIST(struct label, labels);
    LIST(struct symbol, extern_shared); /* of the module */
    LIST(struct device_function, device_functions);
    int depth, instance, instances, call_depth;
    jmp_buf error;
    char *why;
    size_t why_len;
};

static _Noreturn void __attribute__((format(printf, 2, 3)))
fail(struct parser *ps, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(ps->why, ps->why_len, "PTX line %d: %s", ps->line, text);
    longjmp(ps->error, 1);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void skip_space(struct parser *ps) {
    while (ps->p < ps->end) {
        if (*ps->p == '\n')
            ps->line++, ps->p++;
        else if (isspace((unsigned char)*ps->p))
            ps->p++;
        else if (ps->p + 1 < ps->end && ps->p[0] == '/' && ps->p[1] == '/')
            while (ps->p < ps->end && *ps->p != '\n')
                ps->p++;
        else if (ps->p + 1 < ps->end && ps->p[0] == '/' && ps->p[1] == '*') {
            while (ps->p + 1 < ps->end && !(ps->p[0] == '*' && ps->p[1] == '/'))
                ps->line += *ps->p++ == '\n';
            ps->p += 2;
        } else
            return;
    }
}

static bool word_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void next(struct parser *ps) {
    skip_space(ps);
    size_t n = 0;
    ps->tok_start = ps->p;
    if (ps->p < ps->end && *ps->p == '"') {
        do
            ps->p++;
        while (ps->p < ps->end && *ps->p != '"');
        ps->p++;
        strcpy(ps->tok, "\"");
        return;
    }
    while (ps->p < ps->end &&
           (word_char(*ps->p) || (ps->p[0] == ':' && ps->p + 1 < ps->end && ps->p[1] == ':'))) {
        int len = *ps->p == ':' ? 2 : 1;
        for (int i = 0; i < len; i++) {
            if (n + 1 >= TOKEN_MAX)
                fail(ps, "token too long");
            ps->tok[n++] = *ps->p++;
        }
    }
    if (n == 0 && ps->p < ps->end)
        ps->tok[n++] = *ps->p++;
    ps->tok[n] = 0;
}

static bool is(struct parser *ps, const char *token) {
    return strcmp(ps->tok, token) == 0;
}

static bool accept(struct parser *ps, const char *token) {
    if (!is(ps, token))
        return false;
    next(ps);
    return true;
}

static void expect(struct parser *ps, const char *token) {
    if (!accept(ps, token))
        fail(ps, "expected '%s', found '%s'", token, ps->tok);
}

static void skip_line(struct parser *ps) {
    int line = ps->line;
    do
        next(ps);
    while (ps->tok[0] && ps->line == line);
}

static void skip_to(struct parser *ps, const char *token) {
    while (ps->tok[0] && !is(ps, token))
        next(ps);
    next(ps);
}

static bool number_token(struct parser *ps) {
    return isdigit((unsigned char)ps->tok[0]);
}

/* 12, 0x1F, 12U, 0f3F800000, 0d3FF0000000000000 */
static uint64_t number(struct parser *ps) {
    const char *t = ps->tok;
    uint64_t v;
    if (t[0] == '0' && (t[1] == 'f' || t[1] == 'F' || t[1] == 'd' || t[1] == 'D') && t[2])
        v = strtoull(t + 2, NULL, 16);
    else if (strchr(t, '.'))
        fail(ps, "decimal floating-point constant %s is not supported", t);
    else
        v = strtoull(t, NULL, 0);
    next(ps);
    return v;
}

static int64_t integer(struct parser *ps) {
    if (accept(ps, "-"))
        return -(int64_t)number(ps);
    if (!number_token(ps))
        fail(ps, "expected a number, found '%s'", ps->tok);
    return (int64_t)number(ps);
}

/* ---- types and symbols ---------------------------------------------------------------------- */

unsigned ptx_type_size(enum type t) {
    switch (t) {
    case T_B8:
    case T_U8:
    case T_S8:
        return 1;
    case T_B16:
    case T_U16:
    case T_S16:
    case T_F16:
    case T_BF16:
    case T_E4M3X2:
    case T_E5M2X2:
        return 2;
    case T_B64:
    case T_U64:
    case T_S64:
    case T_F64:
        return 8;
    case T_B128:
        return 16;
    default:
        return 4;
    }
}

static unsigned directive_size(struct parser *ps) {
    const char *t = ps->tok;
    size_t n = strlen(t);
    if (strcmp(t, ".pred") == 0)
        return 0;
    if (strcmp(t, ".b128") == 0)
        fail(ps, "128-bit registers are not supported");
    unsigned bits = n > 2 ? (unsigned)atoi(t + 2) : 0;
    if (t[0] != '.' || (bits != 8 && bits != 16 && bits != 32 && bits != 64))
        fail(ps, "unknown type '%s'", t);
    return bits / 8;
}

static struct symbol *add_symbol(struct parser *ps, const char *name, enum symbol_kind kind) {
    struct symbol *s = PUSH(ps->symbols);
    s->name = strdup(name);
    s->kind = kind;
    s->depth = ps->depth;
    return s;
}

static void leave_scope(struct parser *ps, int depth) {
    while (ps->symbols.n && ps->symbols.at[ps->symbols.n - 1].depth > depth)
        free(ps->symbols.at[--ps->symbols.n].name);
}

/* %r12 matches the symbol %r with count > 12. */
static bool symbol_matches(const struct symbol *s, const char *name, int *index) {
    size_t n = strlen(s->name);
    *index = 0;
    if (strncmp(s->name, name, n) != 0)
        return false;
    if (s->count == 0)
        return name[n] == 0;
    char *end;
    *index = (int)strtol(name + n, &end, 10);
    return isdigit((unsigned char)name[n]) && *end == 0 && *index < s->count;
}

static struct symbol *find_symbol(struct parser *ps, const char *name, int *index) {
    for (int i = ps->symbols.n; i-- > 0;)
        if (symbol_matches(&ps->symbols.at[i], name, index))
            return &ps->symbols.at[i];
    return NULL;
}

int ptx_const_slot(struct ptx_function *fn, uint64_t value) {
    for (int i = 0; i < fn->nconsts; i++)
        if (fn->consts[i][0] == value)
            return ~i;
    if (fn->nconsts == fn->cap_consts) {
        fn->cap_consts = fn->cap_consts ? 2 * fn->cap_consts : 32;
        fn->consts = realloc(fn->consts, (size_t)fn->cap_consts * sizeof *fn->consts);
    }
    for (int l = 0; l < LANES; l++)
        fn->consts[fn->nconsts][l] = value;
    return ~fn->nconsts++;
}

static int special_register(const char *name) {
    static const struct {
        const char *name;
        int reg;
    } table[] = {
        {"%tid.x", SR_TID_X},
        {"%tid.y", SR_TID_Y},
        {"%tid.z", SR_TID_Z},
        {"%ntid.x", SR_NTID_X},
        {"%ntid.y", SR_NTID_Y},
        {"%ntid.z", SR_NTID_Z},
        {"%ctaid.x", SR_CTAID_X},
        {"%ctaid.y", SR_CTAID_Y},
        {"%ctaid.z", SR_CTAID_Z},
        {"%nctaid.x", SR_NCTAID_X},
        {"%nctaid.y", SR_NCTAID_Y},
        {"%nctaid.z", SR_NCTAID_Z},
        {"%laneid", SR_LANEID},
        {"%warpid", SR_WARPID},
        {"%nwarpid", SR_NWARPID},
        {"%smid", SR_SMID},
        {"%nsmid", SR_NSMID},
        {"%gridid", SR_GRIDID},
        {"%lanemask_eq", SR_LANEMASK_EQ},
        {"%lanemask_le", SR_LANEMASK_LE},
        {"%lanemask_lt", SR_LANEMASK_LT},
        {"%lanemask_ge", SR_LANEMASK_GE},
        {"%lanemask_gt", SR_LANEMASK_GT},
        {"%dynamic_smem_size", SR_DYNAMIC_SMEM},
        {"%total_smem_size", SR_TOTAL_SMEM},
        {"%clock", SR_CLOCK},
        {"%clock64", SR_CLOCK64},
        {"%globaltimer", SR_GLOBALTIMER},
        {"%globaltimer_lo", SR_GLOBALTIMER_LO},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].reg;
    return -1;
}

/* ---- operands -------------------------------------------------------------------------------- */

static int named_slot(struct parser *ps, const char *name) {
    int index, sr;
    struct symbol *s = find_symbol(ps, name, &index);
    if (s && s->kind == S_REG)
        return s->first + index;
    if (s && s->kind == S_CONST)
        return ptx_const_slot(ps->fn, s->value);
    if ((sr = special_register(name)) >= 0 && sr < SR_COUNT) {
        if (ps->fn->special[sr] < 0)
            ps->fn->special[sr] = ps->fn->nregs++;
        return ps->fn->special[sr];
    }
    fail(ps, "unknown name '%s'", name);
}

/* One element of a vector or the base of an address. */
static int simple_slot(struct parser *ps) {
    if (accept(ps, "_"))
        return SLOT_SINK;
    if (number_token(ps) || is(ps, "-"))
        return ptx_const_slot(ps->fn, (uint64_t)integer(ps));
    int slot = named_slot(ps, ps->tok);
    next(ps);
    return slot;
}

static void parse_vector(struct parser *ps, struct operand *op) {
    op->kind = O_VEC;
    do {
        if (op->n == MAX_VEC)
            fail(ps, "vector operand too long");
        op->vec[op->n++] = simple_slot(ps);
    } while (accept(ps, ","));
    expect(ps, "}");
}

static void parse_offset(struct parser *ps, struct operand *op) {
    while (is(ps, "+") || is(ps, "-")) {
        bool minus = is(ps, "-");
        next(ps);
        op->offset += minus ? -integer(ps) : integer(ps);
    }
}

static void parse_address(struct parser *ps, struct operand *op) {
    op->kind = O_ADDR;
    op->slot = simple_slot(ps);
    parse_offset(ps, op);
    expect(ps, "]");
}

static void parse_name(struct parser *ps, struct operand *op, int insn, int operand) {
    int index, sr = special_register(ps->tok);
    struct symbol *s = find_symbol(ps, ps->tok, &index);
    op->slot2 = -1;
    if (s && s->kind == S_PRED) {
        op->kind = O_PRED;
        op->slot = s->first + index;
    } else if (!s && sr >= SR_CLOCK) {
        op->kind = O_CLOCK;
        op->slot = sr;
    } else if (!s && sr < 0) { /* a label, perhaps further down */
        struct fixup *f = PUSH(ps->fixups);
        *f = (struct fixup){insn, operand, ps->line, ps->instance, strdup(ps->tok)};
        op->kind = O_LABEL;
    } else {
        op->kind = O_SLOT;
        op->slot = named_slot(ps, ps->tok);
        next(ps);
        if (op->slot < 0 && is(ps, "+")) {
            uint64_t base = ps->fn->consts[~op->slot][0];
            parse_offset(ps, op);
            op->slot = ptx_const_slot(ps->fn, base + (uint64_t)op->offset);
        } else if (accept(ps, "|")) { /* d|p of shfl and match */
            s = find_symbol(ps, ps->tok, &index);
            if (s && s->kind == S_PRED)
                op->slot2 = s->first + index;
            next(ps);
        }
        return;
    }
    next(ps);
    if (op->kind == O_PRED && accept(ps, "|")) {
        s = find_symbol(ps, ps->tok, &index);
        op->slot2 = s && s->kind == S_PRED ? s->first + index : -1;
        next(ps);
    }
}

static void parse_operand(struct parser *ps, struct operand *op, int insn, int operand) {
    op->slot2 = -1;
    if (accept(ps, "{"))
        parse_vector(ps, op);
    else if (accept(ps, "["))
        parse_address(ps, op);
    else if (accept(ps, "_"))
        op->kind = O_SINK;
    else if (accept(ps, "!")) {
        parse_name(ps, op, insn, operand);
        op->neg = true;
    } else if (number_token(ps) || is(ps, "-")) {
        op->kind = O_SLOT;
        op->slot = ptx_const_slot(ps->fn, (uint64_t)integer(ps));
    } else
        parse_name(ps, op, insn, operand);
}

/* ---- statements of a body -------------------------------------------------------------------- */

static void parse_guard(struct parser *ps, struct insn *in) {
    in->guard = -1;
    if (!accept(ps, "@"))
        return;
    in->guard_neg = accept(ps, "!");
    int index;
    struct symbol *s = find_symbol(ps, ps->tok, &index);
    if (!s || s->kind != S_PRED)
        fail(ps, "guard '%s' is no predicate", ps->tok);
    in->guard = s->first + index;
    next(ps);
}

static char *insn_text(const char *from, const char *to) {
    char *text = malloc((size_t)(to - from) + 1), *out = text;
    for (; from < to; from++)
        *out++ = isspace((unsigned char)*from) ? ' ' : *from;
    *out = 0;
    return text;
}

static void skip_unsupported(struct parser *ps) {
    while (ps->tok[0] && !is(ps, ";"))
        next(ps);
}

static void append_insn(struct ptx_function *fn, const struct insn *in) {
    if (fn->ninsns == fn->cap_insns) {
        fn->cap_insns = fn->cap_insns ? 2 * fn->cap_insns : 128;
        fn->insns = realloc(fn->insns, (size_t)fn->cap_insns * sizeof *fn->insns);
    }
    fn->insns[fn->ninsns++] = *in;
}

static void parse_operands(struct parser *ps, struct insn *in) {
    while (!is(ps, ";")) {
        if (in->nops == MAX_OPERANDS) {
            skip_unsupported(ps);
            return;
        }
        parse_operand(ps, &in->op[in->nops], ps->fn->ninsns, in->nops);
        in->nops++;
        if (!accept(ps, ",") && !is(ps, ";"))
            fail(ps, "expected ',' or ';', found '%s'", ps->tok);
    }
}

/* `ret` in an inlined body is a branch behind it. */
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
    next(ps);
    if (call || strncmp(opcode, "brx", 3) == 0)
        while (ps->tok[0] && !is(ps, ";")) {
            assertion |= is(ps, "__assertfail");
            next(ps);
        }
    parse_operands(ps, &in);
    in.text = insn_text(from, ps->p);
    if (ps->instance && strncmp(opcode, "ret", 3) == 0) {
        return_from_call(ps, &in);
        strcpy(opcode, "bra");
    }
    next(ps);
    ptx_decode(&in, assertion ? "trap" : opcode);
    append_insn(ps->fn, &in);
}

static void declare_registers(struct parser *ps) {
    bool pred = is(ps, ".pred");
    directive_size(ps);
    next(ps);
    do {
        struct symbol *s = add_symbol(ps, ps->tok, pred ? S_PRED : S_REG);
        next(ps);
        if (accept(ps, "<")) {
            s->count = (int)integer(ps);
            expect(ps, ">");
        }
        int n = s->count ? s->count : 1, *counter = pred ? &ps->fn->npreds : &ps->fn->nregs;
        s->first = *counter;
        *counter += n;
    } while (accept(ps, ","));
    expect(ps, ";");
}

struct variable {
    char name[TOKEN_MAX];
    size_t align, size;
    unsigned element;
};

/* [.align n] [.v4] .type name [dims]; leaves the parser after the dimensions */
static void parse_variable(struct parser *ps, struct variable *v) {
    unsigned vec = 1;
    v->align = 0;
    while (is(ps, ".align") || is(ps, ".v2") || is(ps, ".v4") || is(ps, ".ptr") ||
           is(ps, ".space")) {
        if (is(ps, ".align")) {
            next(ps);
            v->align = (size_t)integer(ps);
        } else {
            vec = is(ps, ".v2") ? 2 : is(ps, ".v4") ? 4 : 1;
            next(ps);
        }
    }
    v->element = directive_size(ps);
    next(ps);
    while (is(ps, ".ptr") || is(ps, ".global") || is(ps, ".align")) { /* kernel parameter hints */
        bool align = is(ps, ".align");
        next(ps);
        if (align)
            integer(ps);
    }
    strcpy(v->name, ps->tok);
    next(ps);
    v->size = (size_t)v->element * vec;
    if (!v->align)
        v->align = v->size;
    while (accept(ps, "[")) {
        v->size *= is(ps, "]") ? 0 : (size_t)integer(ps);
        expect(ps, "]");
    }
}

static unsigned place(unsigned *top, const struct variable *v) {
    unsigned at = (*top + (unsigned)v->align - 1) / (unsigned)v->align * (unsigned)v->align;
    *top = at + (unsigned)v->size;
    return at;
}

static void declare_local(struct parser *ps, bool shared) {
    struct variable v;
    parse_variable(ps, &v);
    expect(ps, ";");
    unsigned at = place(shared ? &ps->fn->shared_size : &ps->fn->local_size, &v);
    add_symbol(ps, v.name, S_CONST)->value = at;
}

static void body_directive(struct parser *ps) {
    if (accept(ps, ".reg"))
        declare_registers(ps);
    else if (accept(ps, ".shared"))
        declare_local(ps, true);
    else if (accept(ps, ".local"))
        declare_local(ps, false);
    else if (accept(ps, ".param")) {
        declare_local(ps, false);
        ps->symbols.at[ps->symbols.n - 1].value |= CALL_PARAM;
    } else if (is(ps, ".loc") || is(ps, ".file"))
        skip_line(ps);
    else
        skip_to(ps, ";"); /* .pragma */
}

static bool label_here(struct parser *ps) {
    const char *p = ps->p;
    while (p < ps->end && (*p == ' ' || *p == '\t'))
        p++;
    return p < ps->end && *p == ':' && word_char(ps->tok[0]) && ps->tok[0] != '.';
}

static void parse_body(struct parser *ps) {
    int base = ps->depth++;
    while (ps->depth > base) {
        if (!ps->tok[0])
            fail(ps, "unexpected end of the text in a function");
        if (accept(ps, "{"))
            ps->depth++;
        else if (is(ps, "}")) {
            ps->depth--;
            leave_scope(ps, ps->depth);
            next(ps);
        } else if (accept(ps, ";"))
            ;
        else if (label_here(ps)) {
            *PUSH(ps->labels) = (struct label){strdup(ps->tok), ps->fn->ninsns, ps->instance};
            next(ps);
            expect(ps, ":");
        } else if (ps->tok[0] == '.')
            body_directive(ps);
        else
            parse_instruction(ps);
    }
}

/* ---- calls -------------------------------------------------------------------------------------
 */

struct position {
    const char *p;
    int line;
};

static void go_to(struct parser *ps, struct position at) {
    ps->p = at.p;
    ps->line = at.line;
    next(ps);
}

/* The addresses of the actual parameters "(a, b)"; none if there is no parenthesis. */
static int call_arguments(struct parser *ps, uint64_t *value) {
    int n = 0, index;
    if (!accept(ps, "("))
        return 0;
    while (!accept(ps, ")")) {
        struct symbol *s = find_symbol(ps, ps->tok, &index);
        if (n == 32 || !s || s->kind != S_CONST)
            fail(ps, "call argument '%s' is no parameter", ps->tok);
        value[n++] = s->value;
        next(ps);
        accept(ps, ",");
    }
    accept(ps, ",");
    return n;
}

/* Gives the formal parameters the places of the actual ones. */
static void bind_formals(struct parser *ps, const char *list, int line, const uint64_t *value,
                         int n) {
    if (!list)
        return;
    go_to(ps, (struct position){list, line});
    for (int i = 0; !is(ps, ")") && i < n; i++) {
        struct variable v;
        expect(ps, ".param");
        parse_variable(ps, &v);
        add_symbol(ps, v.name, S_CONST)->value = value[i];
        accept(ps, ",");
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
    go_to(ps, (struct position){f->body, f->body_line});
    parse_body(ps);
    ps->depth--;
    leave_scope(ps, ps->depth);
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
    next(ps);
    int nresults = call_arguments(ps, results);
    const struct device_function *f = find_device_function(ps, ps->tok);
    if (!f || ps->call_depth == MAX_CALL_DEPTH) {
        go_to(ps, start);
        return false;
    }
    next(ps);
    accept(ps, ",");
    int nargs = call_arguments(ps, args);
    struct position after = {ps->tok_start, ps->line};
    inline_body(ps, f, results, nresults, args, nargs);
    go_to(ps, after);
    expect(ps, ";");
    return true;
}

static void resolve_labels(struct parser *ps) {
    for (int i = 0; i < ps->fixups.n; i++) {
        struct fixup *f = &ps->fixups.at[i];
        int pc = -1;
        for (int k = 0; k < ps->labels.n && pc < 0; k++)
            if (ps->labels.at[k].instance == f->instance &&
                strcmp(ps->labels.at[k].name, f->name) == 0)
                pc = ps->labels.at[k].pc;
        ps->line = f->line;
        if (pc < 0)
            fail(ps, "unknown name '%s'", f->name);
        ps->fn->insns[f->insn].op[f->operand].slot = pc;
        free(f->name);
    }
    for (int k = 0; k < ps->labels.n; k++)
        free(ps->labels.at[k].name);
    ps->fixups.n = ps->labels.n = 0;
}

/* ---- module level ------------------------------------------------------------------------------
 */

static void parse_params(struct parser *ps) {
    struct ptx_function *fn = ps->fn;
    if (!accept(ps, "("))
        return;
    unsigned top = 0;
    while (!accept(ps, ")")) {
        expect(ps, ".param");
        struct variable v;
        parse_variable(ps, &v);
        fn->params = realloc(fn->params, (size_t)(fn->nparams + 1) * sizeof *fn->params);
        unsigned at = place(&top, &v);
        fn->params[fn->nparams++] = (struct param){strdup(v.name), at, v.size};
        add_symbol(ps, v.name, S_CONST)->value = at;
        accept(ps, ",");
    }
    fn->param_size = top;
}

static void function_hints(struct parser *ps) {
    while (ps->tok[0] == '.') {
        bool max = is(ps, ".maxntid") || is(ps, ".reqntid");
        next(ps);
        unsigned product = 1;
        while (number_token(ps)) {
            product *= (unsigned)integer(ps);
            accept(ps, ",");
        }
        if (max)
            ps->fn->max_threads = product;
    }
}

/* Extern shared arrays overlay each other after the static ones. */
static void declare_extern_shared(struct parser *ps) {
    for (int i = 0; i < ps->extern_shared.n; i++)
        add_symbol(ps, ps->extern_shared.at[i].name, S_CONST)->value =
            0xd15ea5e0000000ull + (unsigned)i;
}

/* The dynamic base is known only after the body: replace the placeholders by the real offset. */
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

static void parse_entry(struct parser *ps) {
    struct ptx_function *fn = calloc(1, sizeof *fn);
    *PUSH(ps->module->functions) = fn;
    fn->module = ps->module;
    fn->name = strdup(ps->tok);
    fn->max_threads = 1024;
    memset(fn->special, -1, sizeof fn->special);
    ps->fn = fn;
    next(ps);
    ps->depth = 1;
    parse_params(ps);
    declare_extern_shared(ps);
    function_hints(ps);
    if (accept(ps, "{"))
        parse_body(ps);
    resolve_labels(ps);
    place_extern_shared(ps);
    ps->depth = 0;
    leave_scope(ps, 0);
    ps->fn = NULL;
}

static void skip_function(struct parser *ps) {
    while (ps->tok[0] && !is(ps, "{") && !is(ps, ";"))
        next(ps);
    int depth = 0;
    do {
        depth += is(ps, "{") - is(ps, "}");
        next(ps);
    } while (ps->tok[0] && depth > 0);
}

static void skip_parentheses(struct parser *ps, const char **inside) {
    *inside = NULL;
    if (!is(ps, "("))
        return;
    *inside = ps->p;
    skip_to(ps, ")");
}

/* .func (results) name (params) hints { body } */
static void note_function(struct parser *ps) {
    struct device_function f = {.line = ps->line};
    skip_parentheses(ps, &f.returns);
    f.name = strdup(ps->tok);
    next(ps);
    skip_parentheses(ps, &f.params);
    while (ps->tok[0] && !is(ps, "{") && !is(ps, ";"))
        next(ps);
    f.body = is(ps, "{") ? ps->p : NULL;
    f.body_line = ps->line;
    if (f.body)
        *PUSH(ps->device_functions) = f;
    else
        free(f.name);
}

static void note_functions(struct parser *ps) {
    struct position start = {ps->p, ps->line};
    for (next(ps); ps->tok[0];)
        if (accept(ps, ".func"))
            note_function(ps);
        else
            next(ps);
    go_to(ps, start);
}

static void initialise(struct parser *ps, const struct variable *v, uint8_t *to) {
    bool list = accept(ps, "{");
    size_t at = 0;
    do {
        uint64_t value = (uint64_t)integer(ps);
        if (at + v->element <= v->size)
            memcpy(to + at, &value, v->element);
        at += v->element;
    } while (list && accept(ps, ","));
    if (list)
        expect(ps, "}");
}

static void declare_global(struct parser *ps) {
    struct variable v;
    parse_variable(ps, &v);
    uint64_t addr = ps->module->env->alloc(v.size ? v.size : 1, v.align, ps->module->device);
    struct ptx_range range;
    if (!addr || !ps->module->env->find(addr, ps->module->device, &range))
        fail(ps, "no device memory for variable %s", v.name);
    uint8_t *host = (uint8_t *)(uintptr_t)(addr + (uint64_t)range.shift);
    memset(host, 0, v.size);
    if (accept(ps, "="))
        initialise(ps, &v, host);
    expect(ps, ";");
    *PUSH(ps->module->globals) = (struct global){strdup(v.name), addr, v.size};
    add_symbol(ps, v.name, S_CONST)->value = addr;
}

static void module_item(struct parser *ps) {
    bool is_extern = false;
    while (is(ps, ".visible") || is(ps, ".extern") || is(ps, ".weak") || is(ps, ".common")) {
        is_extern |= is(ps, ".extern");
        next(ps);
    }
    if (accept(ps, ".entry"))
        parse_entry(ps);
    else if (accept(ps, ".func"))
        skip_function(ps);
    else if (accept(ps, ".shared")) {
        struct variable v;
        parse_variable(ps, &v);
        expect(ps, ";");
        PUSH(ps->extern_shared)->name = strdup(v.name);
    } else if (is(ps, ".global") || is(ps, ".const")) {
        next(ps);
        if (is_extern)
            fail(ps, "extern variables are not supported");
        declare_global(ps);
    } else if (is(ps, ".version") || is(ps, ".file") || is(ps, ".address_size"))
        skip_line(ps);
    else if (is(ps, ".target")) {
        next(ps);
        ps->module->target = strncmp(ps->tok, "sm_", 3) == 0 ? atoi(ps->tok + 3) : 0;
        skip_line(ps);
    } else if (is(ps, ".section"))
        skip_function(ps);
    else if (is(ps, ".alias") || is(ps, ".pragma"))
        skip_to(ps, ";");
    else
        fail(ps, "unexpected '%s'", ps->tok);
}

static void free_symbols(struct parser *ps) {
    leave_scope(ps, -1);
    free(ps->symbols.at);
    free(ps->fixups.at);
    free(ps->labels.at);
    for (int i = 0; i < ps->extern_shared.n; i++)
        free(ps->extern_shared.at[i].name);
    free(ps->extern_shared.at);
    for (int i = 0; i < ps->device_functions.n; i++)
        free(ps->device_functions.at[i].name);
    free(ps->device_functions.at);
}

struct ptx_module *ptx_module_load(const char *text, size_t len, const struct ptx_env *env,
                                   int device, char *why, size_t why_len) {
    struct parser *ps = calloc(1, sizeof *ps);
    ps->p = text;
    ps->end = text + len;
    ps->line = 1;
    ps->why = why;
    ps->why_len = why_len;
    struct ptx_module *module = ps->module = calloc(1, sizeof *module);
    module->env = env;
    module->device = device;
    bool ok = setjmp(ps->error) == 0;
    if (ok) {
        note_functions(ps);
        while (ps->tok[0])
            module_item(ps);
    }
    free_symbols(ps);
    free(ps);
    if (ok)
        return module;
    ptx_module_free(module);
    return NULL;
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

static int report_function(const struct ptx_function *fn, bool list) {
    int n = 0;
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
