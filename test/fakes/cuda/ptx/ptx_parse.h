/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that parse PTX: the parser's state, tokens and symbols. Other files include
 * ptx.h, or ptx_internal.h for the parts of a module. */
#ifndef PTX_PARSE_H
#define PTX_PARSE_H

#include "ptx_internal.h"
#include <pthread.h>
#include <setjmp.h>
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

/* Labels of a body that is inlined several times differ by their instance. */
struct fixup {
    int insn, operand, line, instance;
    char *name;
};

struct label {
    char *name;
    int pc, instance;
};

/* A device function and the start of its signature. Calls are inlined while parsing. */
struct device_function {
    char *name;
    const char *returns, *params; /* text after the "(", NULL if there is none */
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
    pthread_mutex_t lock; /* guards parts that are parsed late */
    struct parser *parser;
    LIST(struct ptx_function *, functions);
    LIST(struct global, globals);
};

struct parser {
    char *text;
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

struct variable {
    char name[TOKEN_MAX];
    size_t align, size;
    unsigned element;
};

struct position {
    const char *p;
    int line;
};

/* ptx_token.c */
bool ptx_word_char(char c);
void ptx_next(struct parser *ps);
bool ptx_is(struct parser *ps, const char *token);
bool ptx_accept(struct parser *ps, const char *token);
void ptx_expect(struct parser *ps, const char *token);
void ptx_skip_line(struct parser *ps);
void ptx_skip_to(struct parser *ps, const char *token);
bool ptx_number_token(struct parser *ps);
int64_t ptx_integer(struct parser *ps);
unsigned ptx_directive_size(struct parser *ps);
struct symbol *ptx_add_symbol(struct parser *ps, const char *name, enum symbol_kind kind);
void ptx_leave_scope(struct parser *ps, int depth);
struct symbol *ptx_find_symbol(struct parser *ps, const char *name, int *index);
void ptx_parse_operand(struct parser *ps, struct operand *op, int insn, int operand);
_Noreturn void __attribute__((format(printf, 2, 3)))
ptx_fail(struct parser *ps, const char *format, ...);

/* ptx_body.c */
void ptx_parse_variable(struct parser *ps, struct variable *v);
unsigned ptx_place(unsigned *top, const struct variable *v);
void ptx_parse_body(struct parser *ps);
void ptx_go_to(struct parser *ps, struct position at);
void ptx_resolve_labels(struct parser *ps);
void ptx_forget_labels(struct parser *ps);

#endif
