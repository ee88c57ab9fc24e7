/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Space-time diagrams of plans, for ringcomm-plan: a column per rank, time goes down, an arrow is a
 * message. The plans are simulated first. In the simulation each message takes one unit of time, a
 * rank sends one message at a time, and channels have unlimited slots. So a message is drawn in the
 * first row in which its inputs have arrived. The diagram shows the order, not measured times.
 */
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "plan_graph.h"

#define ROW_HEIGHT    52
#define HEADER_HEIGHT 96
#define LABEL_MAX     64
#define WIDTH_MIN     460 /* width of the text at the top */

/* ---- Simulation ------------------------------------------------------------------------------ */

struct simulated_rank {
    const struct rcmi_plan *plan;
    uint32_t *sent;       /* by step: when it sends, 1..; 0: not yet, or it sends nothing */
    uint32_t *pc, *clock; /* by lane */
    uint32_t port;        /* time of its last message */
};

struct picture {
    const struct rcmi_shape *shape;
    struct simulated_rank *ranks;
    uint32_t rows; /* units of time */
    int column;    /* width */
};

static bool step_reads(const struct rcmi_plan *plan, uint32_t step, uint32_t channel) {
    const struct rcmi_step *s = &plan->steps[step];
    for (uint32_t k = 0; k < s->nsrcs; k++)
        if (plan->operands[s->first_src + k].where == RCMI_CHANNEL &&
            plan->operands[s->first_src + k].index == channel)
            return true;
    return false;
}

static bool is_writer_end(const struct rcmi_plan_channel *in, int reader,
                          const struct rcmi_plan_channel *out) {
    return out->outgoing && out->multicast == in->multicast && out->number == in->number &&
           (out->multicast || out->peer == reader);
}

/* The writer's step that sends the message which `step` receives from a channel; nsteps: none. */
static uint32_t sender_of(const struct picture *p, const struct rcmi_plan *plan, uint32_t step,
                          uint32_t channel) {
    const struct rcmi_plan *writer = p->ranks[plan->channels[channel].peer].plan;
    uint32_t before = 0, end = 0, i = 0;
    for (uint32_t s = 0; s < step; s++)
        before += step_reads(plan, s, channel);
    while (end < writer->nchannels &&
           !is_writer_end(&plan->channels[channel], plan->rank, &writer->channels[end]))
        end++;
    for (; i < writer->nsteps; i++)
        if (writer->steps[i].out == end && end < writer->nchannels && before-- == 0)
            return i;
    return i;
}

/* *ret_time: when all messages of the step have arrived; false: some are not sent yet. */
static bool step_arrives(const struct picture *p, const struct rcmi_plan *plan, uint32_t step,
                         uint32_t *ret_time) {
    const struct rcmi_step *s = &plan->steps[step];
    *ret_time = 0;
    for (uint32_t k = 0; k < s->nsrcs; k++) {
        const struct rcmi_operand *src = &plan->operands[s->first_src + k];
        if (src->where != RCMI_CHANNEL)
            continue;
        const struct simulated_rank *from = &p->ranks[plan->channels[src->index].peer];
        const uint32_t sender = sender_of(p, plan, step, src->index);
        if (sender >= from->plan->nsteps || from->sent[sender] == 0)
            return false;
        *ret_time = *ret_time > from->sent[sender] ? *ret_time : from->sent[sender];
    }
    return true;
}

/* Runs all steps of the lane whose inputs have arrived; false if there was none. */
static bool lane_advance(struct picture *p, struct simulated_rank *rank, uint32_t lane) {
    const struct rcmi_lane *l = &rank->plan->lanes[lane];
    const uint32_t before = rank->pc[lane];
    uint32_t time;
    for (; rank->pc[lane] < l->nsteps; rank->pc[lane]++) {
        const uint32_t step = l->first_step + rank->pc[lane];
        uint32_t *clock = &rank->clock[lane];
        if (!step_arrives(p, rank->plan, step, &time))
            break;
        *clock = *clock > time ? *clock : time;
        if (rank->plan->steps[step].out == RCMI_NO_CHANNEL)
            continue;
        rank->port = (*clock > rank->port ? *clock : rank->port) + 1;
        *clock = rank->sent[step] = rank->port;
        p->rows = p->rows > *clock ? p->rows : *clock;
    }
    return rank->pc[lane] > before;
}

static void simulate(struct picture *p) {
    bool moved = true;
    while (moved) {
        moved = false;
        for (int r = 0; r < p->shape->nranks; r++)
            for (uint32_t lane = 0; lane < p->ranks[r].plan->nlanes; lane++)
                moved |= lane_advance(p, &p->ranks[r], lane);
    }
}

static void picture_free(struct picture *p) {
    for (int r = 0; p->ranks && r < p->shape->nranks; r++) {
        free(p->ranks[r].sent);
        free(p->ranks[r].pc);
    }
    free(p->ranks);
}

static bool picture_make(struct picture *p, const struct rcmi_plan *const *plans) {
    p->ranks = calloc((size_t)p->shape->nranks, sizeof(*p->ranks));
    bool ok = p->ranks != NULL;
    for (int r = 0; ok && r < p->shape->nranks; r++) {
        struct simulated_rank *rank = &p->ranks[r];
        rank->plan = plans[r];
        rank->sent = calloc(plans[r]->nsteps + 1, sizeof(*rank->sent));
        rank->pc = calloc(2 * (size_t)plans[r]->nlanes + 1, sizeof(*rank->pc));
        ok = rank->sent && rank->pc;
        rank->clock = ok ? rank->pc + plans[r]->nlanes : NULL;
    }
    if (!ok)
        tool_error("out of memory");
    return ok;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

/* A chunk as text; for an all-to-all "0>2", from rank 0 to rank 2. */
static int chunk_write(const struct rcmi_plan *plan, uint32_t chunk, char *text, size_t size) {
    const uint32_t p = (uint32_t)plan->nranks;
    if (rcmi_collective_at((int)plan->collective)->total == RCMI_TOTAL_PAIRS)
        return snprintf(text, size, "%u&gt;%u", chunk / p, chunk % p);
    return snprintf(text, size, "%u", chunk);
}

/* The chunks that a step receives: "+2..4", "1,3"; empty for a signal. */
static void label_write(const struct rcmi_plan *plan, const struct rcmi_step *s, char *text) {
    const bool listed = s->list != RCMI_NO_LIST;
    size_t used = s->nsrcs > 1 ? 1 : 0;
    strcpy(text, used ? "+" : "");
    if (s->op == RCMI_STEP_WAIT)
        return;
    for (uint32_t i = 0; i < s->nchunks && used < LABEL_MAX - 24; i++) {
        if (!listed && i > 0 && i + 1 < s->nchunks)
            continue;
        if (i > 0)
            used += (size_t)snprintf(text + used, LABEL_MAX - used, "%s", listed ? "," : "..");
        used +=
            (size_t)chunk_write(plan, rcmi_step_chunk(plan, s, i), text + used, LABEL_MAX - used);
    }
    if (listed && used >= LABEL_MAX - 24)
        snprintf(text + used, LABEL_MAX - used, "...");
}

/* The approximate width of a drawn label. */
static int label_width(const char *label) {
    int n = 0;
    for (; *label; label++)
        n += strncmp(label, "gt;", 3) != 0 && label[0] != 't' && label[0] != ';';
    return n * 7;
}

static int column_x(const struct picture *p, int rank) {
    return p->column / 2 + 40 + rank * p->column;
}

static const char *host_fill(const struct picture *p, int rank) {
    static const char *const fills[] = {"#f3f6fa", "#fdf3e4", "#eef7ee", "#f7eef5"};
    return fills[p->shape->host_of[rank] % 4];
}

static void write_column(FILE *to, const struct picture *p, int r, int height) {
    const int x = column_x(p, r);
    fprintf(to, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#999\"/>\n", x,
            HEADER_HEIGHT, x, height - 16);
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\">rank %d", x,
            HEADER_HEIGHT - 12, r);
    if (p->shape->nhosts > 1)
        fprintf(to, ", host %d", p->shape->host_of[r]);
    fprintf(to, "</text>\n");
}

static void write_columns(FILE *to, const struct picture *p, int height) {
    for (int r = 0; r < p->shape->nranks; r++)
        fprintf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                column_x(p, r) - p->column / 2, HEADER_HEIGHT - 30, p->column,
                height - HEADER_HEIGHT + 20, host_fill(p, r));
    for (int r = 0; r < p->shape->nranks; r++)
        write_column(to, p, r, height);
    for (uint32_t t = 1; t <= p->rows; t++)
        fprintf(to, "<text x=\"6\" y=\"%u\" fill=\"#666\">%u</text>\n",
                HEADER_HEIGHT + t * ROW_HEIGHT - ROW_HEIGHT / 2, t);
}

/* A message at its receiver; n: its index among the messages that arrive there in this row. */
struct arrow {
    int from, to;
    uint32_t time, n;
    const struct rcmi_step *step;
};

static const char *arrow_colour(const struct arrow *a) {
    return a->step->nsrcs > 1 ? "#b3541e" : "#1f5fbf";
}

static int arrow_top(const struct arrow *a) {
    return HEADER_HEIGHT + (int)(a->time - 1) * ROW_HEIGHT;
}

static int arrow_end(const struct arrow *a) {
    return arrow_top(a) + ROW_HEIGHT - 10 - (int)(a->n % 3) * 13;
}

static void write_line(FILE *to, const struct picture *p, const struct arrow *a) {
    const int x = column_x(p, a->to);
    fprintf(to,
            "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"1.5\" "
            "marker-end=\"url(#%s)\"/>\n",
            column_x(p, a->from), arrow_top(a) + 6, a->to > a->from ? x - 2 : x + 2, arrow_end(a),
            arrow_colour(a), a->step->nsrcs > 1 ? "adds" : "keeps");
}

/* Writes the label on the side opposite to the arrow. */
static void write_label(FILE *to, const struct picture *p, const struct arrow *a) {
    char label[LABEL_MAX];
    const bool right = a->to > a->from;
    const int x = column_x(p, a->to) + (right ? 5 : -5), y = arrow_end(a);
    label_write(p->ranks[a->to].plan, a->step, label);
    const int width = label_width(label);
    if (width > 0)
        fprintf(to,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"12\" fill=\"#fff\" "
                "fill-opacity=\"0.8\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" "
                "fill=\"%s\">%s</text>\n",
                right ? x - 1 : x - width, y - 6, width + 1, x, y + 4, right ? "start" : "end",
                arrow_colour(a), label);
}

static void write_arrows(FILE *to, const struct picture *p, int r,
                         void (*write)(FILE *, const struct picture *, const struct arrow *)) {
    const struct rcmi_plan *plan = p->ranks[r].plan;
    uint32_t *heads = calloc(p->rows + 1, sizeof(*heads)); /* by row */
    for (uint32_t step = 0; heads && step < plan->nsteps; step++) {
        const struct rcmi_step *s = &plan->steps[step];
        for (uint32_t k = 0; k < s->nsrcs; k++) {
            const struct rcmi_operand *src = &plan->operands[s->first_src + k];
            if (src->where != RCMI_CHANNEL)
                continue;
            const int from = plan->channels[src->index].peer;
            const uint32_t sender = sender_of(p, plan, step, src->index);
            const uint32_t time =
                sender < p->ranks[from].plan->nsteps ? p->ranks[from].sent[sender] : 0;
            if (time > 0)
                write(to, p, &(struct arrow){from, r, time, heads[time]++, s});
        }
    }
    free(heads);
}

/* Wide enough for the longest label on one side of its line. */
static int column_width(const struct picture *p) {
    int longest = 0;
    char label[LABEL_MAX];
    for (int r = 0; r < p->shape->nranks; r++) {
        const struct rcmi_plan *plan = p->ranks[r].plan;
        for (uint32_t step = 0; step < plan->nsteps; step++) {
            label_write(plan, &plan->steps[step], label);
            longest = label_width(label) > longest ? label_width(label) : longest;
        }
    }
    const int least = p->shape->nhosts > 1 ? 110 : 80;
    return 50 + longest > least ? 50 + longest : least;
}

static void write_marker(FILE *to, const char *name, const char *colour) {
    fprintf(to,
            "<marker id=\"%s\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
            "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"%s\"/></marker>\n",
            name, colour);
}

static void write_head(FILE *to, const struct picture *p, int width, int height) {
    const struct rcmi_plan *plan = p->ranks[0].plan;
    const struct rcmi_collective *row = rcmi_collective_at((int)plan->collective);
    const bool pairs = row->total == RCMI_TOTAL_PAIRS;
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
            width, height, width, height);
    fprintf(to, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<defs>\n");
    write_marker(to, "adds", "#b3541e");
    write_marker(to, "keeps", "#1f5fbf");
    fprintf(to,
            "</defs>\n<text x=\"6\" y=\"18\" font-size=\"15\" font-weight=\"bold\">%s, %s, %d "
            "ranks</text>\n",
            row->name, plan->algorithm, plan->nranks);
    fprintf(to,
            "<text x=\"6\" y=\"36\">Time goes down; a rank sends one message in each row.%s"
            "</text>\n",
            p->rows == 0 ? " There is none." : "");
    fprintf(to,
            "<text x=\"6\" y=\"54\">At its head: the %s that it brings, <tspan fill=\"#1f5fbf\">"
            "kept as they come</tspan>%s.</text>\n",
            pairs ? "blocks (from&gt;to)" : "chunks",
            row->reduces ? ", or <tspan fill=\"#b3541e\">+ added up</tspan>" : "");
}

bool plan_write_svg(FILE *to, const struct rcmi_shape *shape,
                    const struct rcmi_plan *const *plans) {
    struct picture p = {.shape = shape};
    const bool ok = picture_make(&p, plans);
    if (ok) {
        simulate(&p);
        p.column = column_width(&p);
        const int columns = 60 + shape->nranks * p.column,
                  width = columns > WIDTH_MIN ? columns : WIDTH_MIN;
        const int height = HEADER_HEIGHT + (int)p.rows * ROW_HEIGHT + 20;
        write_head(to, &p, width, height);
        write_columns(to, &p, height);
        for (int r = 0; r < shape->nranks; r++)
            write_arrows(to, &p, r, write_line);
        for (int r = 0; r < shape->nranks; r++)
            write_arrows(to, &p, r, write_label);
        fprintf(to, "</svg>\n");
    }
    picture_free(&p);
    return ok;
}
