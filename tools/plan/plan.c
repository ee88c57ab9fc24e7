/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-plan: shows the plans of collectives without running them. Prints the steps of each
 * rank, proves that they are correct, draws them, and explains which algorithm is chosen. Links the
 * internal libraries, because plans are not part of the public interface.
 */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "error.h"
#include "explain.h"
#include "plan.h"
#include "plan_graph.h"
#include "settings.h"

#define RANKS_MAX     4096
#define SVG_RANKS_MAX 64

enum plan_key {
    KEY_ROOT = 256,
    KEY_RANK,
    KEY_HOSTS,
    KEY_LIST,
    KEY_VERIFY,
    KEY_DOT,
    KEY_SVG,
    KEY_EXPLAIN,
    KEY_RANKS_PER_CPU,
    KEY_ONE_MACHINE,
    KEY_STEPS
};

struct plan_options {
    enum rcm_collective collective; /* 0: not given */
    int64_t ranks, root, rank;      /* -1: not given */
    const char *algorithm, *hosts;
    bool list, verify, dot, svg, steps, explain;
    int64_t bytes, ranks_per_cpu;
    struct rcmi_shape shape;
    struct rcmi_prices prices;
    int host_of[RANKS_MAX];
};

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Parses the number at *text and skips the comma after it. */
static bool take_number(const char **text, int64_t max, int64_t *ret_value) {
    char word[16];
    const size_t len = strcspn(*text, ",");
    if (len == 0 || len >= sizeof(word))
        return false;
    memcpy(word, *text, len);
    word[len] = '\0';
    *text += len;
    if (**text == ',' && *++*text == '\0')
        return false; /* nothing after the comma */
    return tool_parse_int(word, 0, max, ret_value);
}

static bool add_ranks(struct plan_options *o, int64_t count, int host) {
    if (count > RANKS_MAX - o->shape.nranks)
        return false;
    for (int64_t i = 0; i < count; i++)
        o->host_of[o->shape.nranks++] = host;
    if (host >= o->shape.nhosts)
        o->shape.nhosts = host + 1;
    return true;
}

/* "4,4,2": the number of ranks on each host. */
static bool parse_host_sizes(struct plan_options *o, const char *text) {
    for (int host = 0; *text; host++) {
        int64_t count;
        if (!take_number(&text, RANKS_MAX, &count) || count == 0 || !add_ranks(o, count, host))
            return false;
    }
    return true;
}

/* "0,1,0,1": the host of each rank, numbered by first appearance. */
static bool parse_host_of_ranks(struct plan_options *o, const char *text) {
    while (*text) {
        int64_t host;
        if (!take_number(&text, o->shape.nhosts, &host) || !add_ranks(o, 1, (int)host))
            return false;
    }
    return true;
}

static void parse_shape(struct plan_options *o, struct argp_state *state) {
    o->shape.host_of = o->host_of;
    if (o->hosts) {
        const bool each = strncmp(o->hosts, "i:", 2) == 0;
        const char *text = o->hosts + (each ? 2 : 0);
        if (!*text || !(each ? parse_host_of_ranks(o, text) : parse_host_sizes(o, text)))
            argp_error(state,
                       "--hosts %s: neither ranks per host (4,4,2) nor, with i:, the host of each "
                       "rank, numbered from 0 in order of appearance (i:0,1,0,1)",
                       o->hosts);
        if (o->ranks >= 0 && o->ranks != o->shape.nranks)
            argp_error(state, "--hosts %s has %d ranks, but --ranks is %lld", o->hosts,
                       o->shape.nranks, (long long)o->ranks);
    } else if (o->ranks >= 0) {
        add_ranks(o, o->ranks, 0);
    }
}

/* ---- Plans of all ranks ---------------------------------------------------------------------- */

static void plans_free(struct rcmi_plan **plans, int nranks) {
    for (int rank = 0; plans && rank < nranks; rank++)
        rcmi_plan_free(plans[rank]);
    free(plans);
}

/* NULL: an error was printed. */
static struct rcmi_plan **plans_make(const struct plan_options *o,
                                     const struct rcmi_algorithm *algorithm) {
    struct rcmi_plan **plans = calloc((size_t)o->shape.nranks, sizeof(*plans));
    for (int rank = 0; plans && rank < o->shape.nranks; rank++)
        if (algorithm->emit(algorithm, &o->shape, rank, (int)o->root, &plans[rank]) != RCM_OK) {
            tool_error("%s", rcmi_last_error()->text);
            plans_free(plans, o->shape.nranks);
            return NULL;
        }
    if (!plans)
        tool_error("out of memory");
    return plans;
}

static const struct rcmi_plan *const *plans_const(struct rcmi_plan **plans) {
    return (const struct rcmi_plan *const *)plans;
}

static void print_title(const struct rcmi_plan *plan, const struct rcmi_shape *shape) {
    printf("# %s %s: %d rank%s on %d host%s", rcmi_collective_name(plan->collective),
           plan->algorithm, plan->nranks, plan->nranks == 1 ? "" : "s", shape->nhosts,
           shape->nhosts == 1 ? "" : "s");
    if (rcmi_collective_is_rooted(rcmi_collective_at((int)plan->collective)))
        printf(", root %d", plan->root);
    printf(", %u chunk%s, at least %u slot%s\n", plan->nchunks, plan->nchunks == 1 ? "" : "s",
           plan->min_slots, plan->min_slots == 1 ? "" : "s");
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void print_steps(const struct plan_options *o, struct rcmi_plan **plans) {
    print_title(plans[0], &o->shape);
    printf("# rank lane step what\n");
    for (int rank = 0; rank < o->shape.nranks; rank++) {
        const struct rcmi_plan *plan = plans[rank];
        for (uint32_t lane = 0; lane < plan->nlanes && (o->rank < 0 || o->rank == rank); lane++) {
            for (uint32_t i = 0; i < plan->lanes[lane].nsteps; i++) {
                char words[512];
                const uint32_t step = plan->lanes[lane].first_step + i;
                rcmi_step_describe(plan, step, words, sizeof(words));
                printf("%6d %4u %4u %s\n", rank, lane, step, words);
            }
        }
    }
}

/* ---- Verify ---------------------------------------------------------------------------------- */

static bool verify_plans(const struct plan_options *o, const struct rcmi_algorithm *algorithm,
                         struct rcmi_plan **plans) {
    const struct rcmi_collective *row = rcmi_collective_at((int)o->collective);
    struct rcmi_verify_options options = {.formula = algorithm, .counts = row->counts};
    rcm_status status = rcmi_verify(&o->shape, plans_const(plans), &options);
    options.in_place = true;
    if (status == RCM_OK && !row->apart)
        status = rcmi_verify(&o->shape, plans_const(plans), &options);
    print_title(plans[0], &o->shape);
    if (status != RCM_OK) {
        printf("%s %s WRONG\n", row->name, algorithm->name);
        tool_error("%s", rcmi_last_error()->text);
        return false;
    }
    const bool barrier = algorithm->collective == RCM_BARRIER;
    const struct rcmi_formula f = algorithm->formula(algorithm, &o->shape, 0, (int)o->root);
    printf("# proved: every message is received by a step that expects it, none is left over; no\n"
           "#   deadlock with %u slot%s or more, once and twice in a row;\n"
           "#   %s%s;\n"
           "#   %u message%s in a row, equal to the formula",
           plans[0]->min_slots, plans[0]->min_slots == 1 ? "" : "s", row->guarantee,
           barrier || row->apart ? "" : ", in place or not", f.rounds, f.rounds == 1 ? "" : "s");
    if (barrier)
        printf("\n");
    else
        printf("; rank 0 sends %llu chunk%s\n", (unsigned long long)f.chunks_sent,
               f.chunks_sent == 1 ? "" : "s");
    printf("%s %s ok\n", row->name, algorithm->name);
    return true;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* order: whether it combines contributions in rank order; "-": it does not combine. */
static void print_list(const struct plan_options *o) {
    const bool reduces = rcmi_collective_at((int)o->collective)->reduces;
    printf("# %-18s %-5s %-5s %s\n", "algorithm", "fits", "order", "what it does");
    for (size_t i = 0; rcmi_algorithms[i]; i++) {
        const struct rcmi_algorithm *a = rcmi_algorithms[i];
        const char *fits = "-"; /* no ranks were given */
        if (!rcmi_algorithm_does(a, o->collective))
            continue;
        if (o->shape.nranks > 0)
            fits = a->supports(&o->shape) ? "yes" : "no";
        const char *order = !reduces ? "-" : rcmi_algorithm_is_ordered(a) ? "yes" : "no";
        printf("%-20s %-5s %-5s %s\n", a->name, fits, order, a->description);
    }
}

/* ---- Command line ---------------------------------------------------------------------------- */

static enum rcm_collective collective_of(const char *name) {
    const struct rcmi_collective *collective = rcmi_collective_by_name(name);
    return collective ? collective->id : (enum rcm_collective)0;
}

static void parse_number(struct argp_state *state, const char *option, const char *text,
                         int64_t min, int64_t max, int64_t *ret_value) {
    if (!tool_parse_int(text, min, max, ret_value))
        argp_error(state, "%s %s: not a number from %lld to %lld", option, text, (long long)min,
                   (long long)max);
}

/* "all_reduce, broadcast, ..." */
static const char *collective_names(char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int id = 1; id < RCMI_COLLECTIVES && used < size; id++)
        if (rcmi_collective_at(id))
            used += (size_t)snprintf(text + used, size - used, "%s%s", id > 1 ? ", " : "",
                                     rcmi_collective_name((enum rcm_collective)id));
    return text;
}

static void parse_end(struct plan_options *o, struct argp_state *state) {
    char names[256];
    if (!o->collective)
        argp_error(state, "COLLECTIVE is missing: %s", collective_names(names, sizeof(names)));
    parse_shape(o, state);
    o->steps |= !(o->list || o->verify || o->dot || o->svg || o->explain);
    if (o->shape.nranks == 0 &&
        !(o->list && !(o->steps || o->verify || o->dot || o->svg || o->explain)))
        argp_error(state, "the number of ranks is missing: --ranks N or --hosts SHAPE");
    if ((o->steps || o->dot || o->svg) && !o->algorithm)
        argp_error(state, "the algorithm is missing: --algorithm NAME; --list shows all names");
    if (o->dot && o->svg)
        argp_error(state, "--dot and --svg both write to stdout; choose one");
    if (o->svg && o->shape.nranks > SVG_RANKS_MAX)
        argp_error(state, "--svg: cannot draw a picture of more than %d ranks, here %d",
                   SVG_RANKS_MAX, o->shape.nranks);
    if (o->root > 0 && o->collective &&
        !rcmi_collective_is_rooted(rcmi_collective_at((int)o->collective)))
        argp_error(state, "--root: %s has no root", rcmi_collective_name(o->collective));
    if (o->shape.nranks > 0 && o->root >= o->shape.nranks)
        argp_error(state, "--root %lld: the ranks are 0 to %d", (long long)o->root,
                   o->shape.nranks - 1);
    if (o->rank >= 0 && o->rank >= o->shape.nranks)
        argp_error(state, "--rank %lld: the ranks are 0 to %d", (long long)o->rank,
                   o->shape.nranks - 1);
}

static error_t plan_parse(int key, char *arg, struct argp_state *state) {
    struct plan_options *o = state->input;
    char names[256];
    switch (key) {
    case 'n':
        parse_number(state, "--ranks", arg, 1, RANKS_MAX, &o->ranks);
        return 0;
    case 'a':
        o->algorithm = arg;
        return 0;
    case KEY_ROOT:
        parse_number(state, "--root", arg, 0, RANKS_MAX - 1, &o->root);
        return 0;
    case KEY_RANK:
        parse_number(state, "--rank", arg, 0, RANKS_MAX - 1, &o->rank);
        return 0;
    case KEY_HOSTS:
        o->hosts = arg;
        return 0;
    case KEY_LIST:
        o->list = true;
        return 0;
    case KEY_VERIFY:
        o->verify = true;
        return 0;
    case KEY_DOT:
        o->dot = true;
        return 0;
    case KEY_SVG:
        o->svg = true;
        return 0;
    case KEY_STEPS:
        o->steps = true;
        return 0;
    case KEY_RANKS_PER_CPU:
        parse_number(state, "--ranks-per-cpu", arg, 1, RANKS_MAX, &o->ranks_per_cpu);
        return 0;
    case KEY_ONE_MACHINE:
        o->shape.loopback = true;
        return 0;
    case KEY_EXPLAIN:
        o->explain = true;
        if (!tool_parse_size(arg, &o->bytes))
            argp_error(state, "--explain %s: not a size such as 8, 64K or 1M", arg);
        return 0;
    case ARGP_KEY_ARG:
        o->collective = state->arg_num == 0 ? collective_of(arg) : (enum rcm_collective)0;
        if (!o->collective)
            argp_error(state, "'%s' is not one of %s", arg, collective_names(names, sizeof(names)));
        return 0;
    case ARGP_KEY_END:
        parse_end(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool show_algorithm(const struct plan_options *o, const struct rcmi_algorithm *algorithm) {
    struct rcmi_plan **plans = plans_make(o, algorithm);
    bool ok = plans != NULL;
    if (ok && o->steps)
        print_steps(o, plans);
    if (ok && o->verify)
        ok = verify_plans(o, algorithm, plans);
    if (plans && o->dot)
        plan_write_dot(stdout, plans_const(plans));
    if (plans && o->svg)
        ok &= plan_write_svg(stdout, &o->shape, plans_const(plans));
    plans_free(plans, o->shape.nranks);
    return ok;
}

static bool show_algorithms(const struct plan_options *o) {
    const struct rcmi_algorithm *one;
    bool ok = true;
    if (o->algorithm) {
        if (rcmi_algorithm_find(o->collective, o->algorithm, &o->shape, &one) != RCM_OK) {
            tool_error("%s", rcmi_last_error()->text);
            return false;
        }
        return show_algorithm(o, one);
    }
    for (size_t i = 0; rcmi_algorithms[i]; i++)
        if (rcmi_algorithm_does(rcmi_algorithms[i], o->collective) &&
            rcmi_algorithms[i]->supports(&o->shape))
            ok &= show_algorithm(o, rcmi_algorithms[i]);
    return ok;
}

static void print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "ringcomm-plan %d.%d.%d\n", RCM_VERSION_MAJOR, RCM_VERSION_MINOR,
            RCM_VERSION_PATCH);
}

static const struct argp_option plan_table[] = {
    {NULL, 0, NULL, 0, "Selection:", 1},
    {"ranks", 'n', "N", 0, "Number of ranks; on one host, unless --hosts is given", 1},
    {"hosts", KEY_HOSTS, "SHAPE", 0,
     "4,4,2: number of ranks on each host, in order; i:0,1,0,1: the host of each rank", 1},
    {"algorithm", 'a', "NAME", 0, "Algorithm; without it --verify checks all that fit", 1},
    {"root", KEY_ROOT, "R", 0, "Root of a collective that has one (default 0)", 1},
    {"rank", KEY_RANK, "R", 0, "Print only this rank's steps", 1},
    {NULL, 0, NULL, 0, "Output (default --steps):", 2},
    {"steps", KEY_STEPS, NULL, 0, "The steps of each rank", 2},
    {"list", KEY_LIST, NULL, 0,
     "The algorithms of the collective, and which of them combine in rank order", 2},
    {"verify", KEY_VERIFY, NULL, 0, "Prove that the plans of all ranks are correct", 2},
    {"dot", KEY_DOT, NULL, 0, "The messages between ranks, for Graphviz", 2},
    {"svg", KEY_SVG, NULL, 0, "A space-time diagram of the messages", 2},
    {"explain", KEY_EXPLAIN, "BYTES", 0,
     "Counted work and predicted time of each algorithm, the chosen one and the reason, and how "
     "the vector is cut; uses RINGCOMM_TUNING",
     2},
    {"ranks-per-cpu", KEY_RANKS_PER_CPU, "N", 0, "--explain: N ranks share a CPU", 2},
    {"one-machine", KEY_ONE_MACHINE, NULL, 0,
     "--explain: the hosts are on one machine, but share no memory", 2},
    {NULL, 0, NULL, 0, NULL, -1},
    {0},
};

int main(int argc, char **argv) {
    static const struct argp argp = {
        .options = plan_table,
        .parser = plan_parse,
        .args_doc = "COLLECTIVE",
        .doc = "Shows what each rank does in a collective, and proves that it is correct.\v"
               "Examples:\n"
               "  ringcomm-plan all_reduce --list\n"
               "  ringcomm-plan all_reduce --ranks 4 --algorithm ring\n"
               "  ringcomm-plan all_reduce --ranks 4 -a ring --rank 0 --verify --steps\n"
               "  ringcomm-plan broadcast --hosts i:0,1,0,1 --root 2 --verify\n"
               "  ringcomm-plan all_to_all --ranks 4 --algorithm pairwise --rank 1\n"
               "  ringcomm-plan broadcast --ranks 8 --algorithm binomial --svg > tree.svg\n"
               "  ringcomm-plan all_reduce --hosts 8,8 --explain 1M\n\n"
               "Exit status: 0 all well, 1 failure or a plan that is wrong, 2 a command line that "
               "is not valid.",
    };
    static struct plan_options options = {.ranks = -1, .rank = -1};
    argp_err_exit_status = TOOL_USAGE;
    argp_program_version_hook = print_version;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    bool ok = true;
    if (options.list)
        print_list(&options);
    options.shape.ranks_per_cpu = (double)options.ranks_per_cpu;
    options.shape.prices = &options.prices;
    if (options.explain && !explain_prices(&options.prices))
        return TOOL_FAILED;
    if (options.explain)
        ok &= explain(options.collective, &options.shape, (int)options.root, (size_t)options.bytes);
    if (options.steps || options.verify || options.dot || options.svg)
        ok &= show_algorithms(&options);
    if (fflush(stdout) != 0) {
        tool_error("cannot write to stdout");
        ok = false;
    }
    return ok ? TOOL_OK : TOOL_FAILED;
}
