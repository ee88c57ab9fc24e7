/* SPDX-License-Identifier: BSD-3-Clause */
/* PTX text: tokens, the names in it, and operands of instructions. */
#include "ptx_parse.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

_Noreturn void __attribute__((format(printf, 2, 3)))
ptx_fail(struct parser *ps, const char *format, ...) {
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

bool ptx_word_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

void ptx_next(struct parser *ps) {
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
           (ptx_word_char(*ps->p) || (ps->p[0] == ':' && ps->p + 1 < ps->end && ps->p[1] == ':'))) {
        int len = *ps->p == ':' ? 2 : 1;
        for (int i = 0; i < len; i++) {
            if (n + 1 >= TOKEN_MAX)
                ptx_fail(ps, "token too long");
            ps->tok[n++] = *ps->p++;
        }
    }
    if (n == 0 && ps->p < ps->end)
        ps->tok[n++] = *ps->p++;
    ps->tok[n] = 0;
}

bool ptx_is(struct parser *ps, const char *token) {
    return strcmp(ps->tok, token) == 0;
}

bool ptx_accept(struct parser *ps, const char *token) {
    if (!ptx_is(ps, token))
        return false;
    ptx_next(ps);
    return true;
}

void ptx_expect(struct parser *ps, const char *token) {
    if (!ptx_accept(ps, token))
        ptx_fail(ps, "expected '%s', found '%s'", token, ps->tok);
}

void ptx_skip_line(struct parser *ps) {
    int line = ps->line;
    do
        ptx_next(ps);
    while (ps->tok[0] && ps->line == line);
}

void ptx_skip_to(struct parser *ps, const char *token) {
    while (ps->tok[0] && !ptx_is(ps, token))
        ptx_next(ps);
    ptx_next(ps);
}

bool ptx_number_token(struct parser *ps) {
    return isdigit((unsigned char)ps->tok[0]);
}

/* 12, 0x1F, 12U, 0f3F800000, 0d3FF0000000000000 */
static uint64_t number(struct parser *ps) {
    const char *t = ps->tok;
    uint64_t v;
    if (t[0] == '0' && (t[1] == 'f' || t[1] == 'F' || t[1] == 'd' || t[1] == 'D') && t[2])
        v = strtoull(t + 2, NULL, 16);
    else if (strchr(t, '.'))
        ptx_fail(ps, "decimal floating-point constant %s is not supported", t);
    else
        v = strtoull(t, NULL, 0);
    ptx_next(ps);
    return v;
}

int64_t ptx_integer(struct parser *ps) {
    if (ptx_accept(ps, "-"))
        return -(int64_t)number(ps);
    if (!ptx_number_token(ps))
        ptx_fail(ps, "expected a number, found '%s'", ps->tok);
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

unsigned ptx_directive_size(struct parser *ps) {
    const char *t = ps->tok;
    size_t n = strlen(t);
    if (strcmp(t, ".pred") == 0)
        return 0;
    if (strcmp(t, ".b128") == 0)
        ptx_fail(ps, "128-bit registers are not supported");
    unsigned bits = n > 2 ? (unsigned)atoi(t + 2) : 0;
    if (t[0] != '.' || (bits != 8 && bits != 16 && bits != 32 && bits != 64))
        ptx_fail(ps, "unknown type '%s'", t);
    return bits / 8;
}

struct symbol *ptx_add_symbol(struct parser *ps, const char *name, enum symbol_kind kind) {
    struct symbol *s = PUSH(ps->symbols);
    s->name = strdup(name);
    s->kind = kind;
    s->depth = ps->depth;
    return s;
}

void ptx_leave_scope(struct parser *ps, int depth) {
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

struct symbol *ptx_find_symbol(struct parser *ps, const char *name, int *index) {
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
    struct symbol *s = ptx_find_symbol(ps, name, &index);
    if (s && s->kind == S_REG)
        return s->first + index;
    if (s && s->kind == S_CONST)
        return ptx_const_slot(ps->fn, s->value);
    if ((sr = special_register(name)) >= 0 && sr < SR_COUNT) {
        if (ps->fn->special[sr] < 0)
            ps->fn->special[sr] = ps->fn->nregs++;
        return ps->fn->special[sr];
    }
    ptx_fail(ps, "unknown name '%s'", name);
}

/* One element of a vector or the base of an address. */
static int simple_slot(struct parser *ps) {
    if (ptx_accept(ps, "_"))
        return SLOT_SINK;
    if (ptx_number_token(ps) || ptx_is(ps, "-"))
        return ptx_const_slot(ps->fn, (uint64_t)ptx_integer(ps));
    int slot = named_slot(ps, ps->tok);
    ptx_next(ps);
    return slot;
}

static void parse_vector(struct parser *ps, struct operand *op) {
    op->kind = O_VEC;
    do {
        if (op->n == MAX_VEC)
            ptx_fail(ps, "vector operand too long");
        op->vec[op->n++] = simple_slot(ps);
    } while (ptx_accept(ps, ","));
    ptx_expect(ps, "}");
}

static void parse_offset(struct parser *ps, struct operand *op) {
    while (ptx_is(ps, "+") || ptx_is(ps, "-")) {
        bool minus = ptx_is(ps, "-");
        ptx_next(ps);
        op->offset += minus ? -ptx_integer(ps) : ptx_integer(ps);
    }
}

static void parse_address(struct parser *ps, struct operand *op) {
    op->kind = O_ADDR;
    op->slot = simple_slot(ps);
    parse_offset(ps, op);
    ptx_expect(ps, "]");
}

static void parse_name(struct parser *ps, struct operand *op, int insn, int operand) {
    int index, sr = special_register(ps->tok);
    struct symbol *s = ptx_find_symbol(ps, ps->tok, &index);
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
        ptx_next(ps);
        if (op->slot < 0 && ptx_is(ps, "+")) {
            uint64_t base = ps->fn->consts[~op->slot][0];
            parse_offset(ps, op);
            op->slot = ptx_const_slot(ps->fn, base + (uint64_t)op->offset);
        } else if (ptx_accept(ps, "|")) { /* d|p of shfl and match */
            s = ptx_find_symbol(ps, ps->tok, &index);
            if (s && s->kind == S_PRED)
                op->slot2 = s->first + index;
            ptx_next(ps);
        }
        return;
    }
    ptx_next(ps);
    if (op->kind == O_PRED && ptx_accept(ps, "|")) {
        s = ptx_find_symbol(ps, ps->tok, &index);
        op->slot2 = s && s->kind == S_PRED ? s->first + index : -1;
        ptx_next(ps);
    }
}

void ptx_parse_operand(struct parser *ps, struct operand *op, int insn, int operand) {
    op->slot2 = -1;
    if (ptx_accept(ps, "{"))
        parse_vector(ps, op);
    else if (ptx_accept(ps, "["))
        parse_address(ps, op);
    else if (ptx_accept(ps, "_"))
        op->kind = O_SINK;
    else if (ptx_accept(ps, "!")) {
        parse_name(ps, op, insn, operand);
        op->neg = true;
    } else if (ptx_number_token(ps) || ptx_is(ps, "-")) {
        op->kind = O_SLOT;
        op->slot = ptx_const_slot(ps->fn, (uint64_t)ptx_integer(ps));
    } else
        parse_name(ps, op, insn, operand);
}
