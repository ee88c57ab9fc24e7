/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous data-parallel training. Every rank holds the whole network and computes its share of
 * each batch. rcm_all_reduce sums the gradients, so all ranks take the same step and stay equal.
 *
 *     ringcomm-run -n 4 -- ./mnist_sgd
 *
 * Overlap: an asynchronous all-reduce sends the gradient of the upper layer while the gradient of
 * the lower layer is computed.
 *
 *     compute   forward | backward upper | backward lower | .............. | update | update
 *     network                            |== upper ==|    |===== lower =====|
 *
 * Except for rounding, the result does not depend on the number of ranks. The samples of a batch
 * and their order follow from the seed. Each rank divides by the size of the whole batch, so a rank
 * with fewer samples has less weight.
 *
 * net.c has the network, digits.c and idx.c read the files.
 */
#include <argp.h>
#include <errno.h>
#include <ringcomm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "digits.h"
#include "net.h"

#define HELD_BACK 2000 /* test digits when there is no --data */

struct options {
    const char *data, *losses;
    long epochs, batch, steps, seed;
    double rate, momentum;
};

struct trainer {
    struct options options;
    rcm_comm *comm;
    int rank, size;
    struct data_set data;
    uint32_t *order; /* of the training samples in this epoch; the same on all ranks */
    uint64_t random;
    struct net *net, *velocity;
    struct net_upper_gradient *upper;
    struct net_lower *lower;
    struct net_batch batch; /* this rank's share */
    FILE *losses;           /* rank 0 with --losses, else NULL */
    long steps;
};

/* Where the i-th of n nearly equal parts of count begins. */
static size_t part_begin(size_t count, size_t n, size_t i) {
    return count / n * i + (i < count % n ? i : count % n);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A failed operation ends this rank. The library has sent the error to the others. */
static void check(const struct trainer *trainer, rcm_status status, const char *what) {
    if (status == RCM_OK)
        return;
    fprintf(stderr, "mnist_sgd: rank %d: %s: %s\n", trainer->rank, what, rcm_last_error());
    exit(1);
}

/*
 * Returns 1 on all ranks if a step succeeded on all of them, else 0. The lowest failed rank prints
 * its reason; the others usually have the same.
 */
static int agree(struct trainer *trainer, int well, const char *why) {
    int32_t mine = well ? trainer->size : trainer->rank, lowest;
    check(trainer, rcm_all_reduce(trainer->comm, &mine, &lowest, 1, RCM_INT32, RCM_MIN, NULL, NULL),
          "agreeing");
    if (!well && lowest == trainer->rank)
        fprintf(stderr, "mnist_sgd: rank %d: %s\n", trainer->rank, why);
    return lowest == trainer->size;
}

/* ---- Setting up ---------------------------------------------------------------------------- */

static int trainer_check_options(const struct trainer *t, char *error, size_t error_len) {
    if (t->options.batch < t->size) {
        snprintf(error, error_len, "--batch %ld is less than the %d ranks, each needs a sample",
                 t->options.batch, t->size);
        return 0;
    }
    if ((size_t)t->options.batch > t->data.train.count) {
        snprintf(error, error_len, "--batch %ld is more than the %zu training digits",
                 t->options.batch, t->data.train.count);
        return 0;
    }
    return 1;
}

static int trainer_open_losses(struct trainer *t, char *error, size_t error_len) {
    if (t->rank != 0 || !t->options.losses)
        return 1;
    t->losses = fopen(t->options.losses, "we");
    if (t->losses)
        return 1;
    snprintf(error, error_len, "--losses %s: %s", t->options.losses, strerror(errno));
    return 0;
}

static int trainer_allocate(struct trainer *t, char *error, size_t error_len) {
    const size_t share = (size_t)t->options.batch / (size_t)t->size + 1;
    t->order = calloc(t->data.train.count, sizeof *t->order);
    t->net = calloc(1, sizeof *t->net);
    t->velocity = calloc(1, sizeof *t->velocity);
    t->upper = calloc(1, sizeof *t->upper);
    t->lower = calloc(1, sizeof *t->lower);
    if (t->order && t->net && t->velocity && t->upper && t->lower &&
        net_batch_init(&t->batch, share) == 0)
        return 1;
    snprintf(error, error_len, "no memory for a batch of %ld", t->options.batch);
    return 0;
}

/* Returns 0 if any rank has failed; the reason is printed then. */
static int trainer_prepare(struct trainer *t) {
    char error[6000] = "";
    int well = data_set_read(&t->data, t->options.data, HELD_BACK, error, sizeof error) == 0 &&
               trainer_check_options(t, error, sizeof error) &&
               trainer_open_losses(t, error, sizeof error) &&
               trainer_allocate(t, error, sizeof error);
    if (!agree(t, well, error))
        return 0;
    t->random = (uint64_t)t->options.seed;
    for (size_t i = 0; i < t->data.train.count; i++)
        t->order[i] = (uint32_t)i;
    /* The seed alone would do; the broadcast makes the ranks equal whatever their math library. */
    if (t->rank == 0)
        net_init(t->net, t->random);
    check(t, rcm_broadcast(t->comm, t->net, FLOATS(struct net), RCM_FLOAT32, 0, NULL, NULL),
          "broadcast of the first weights");
    return 1;
}

static void trainer_release(struct trainer *t) {
    data_set_free(&t->data);
    net_batch_fini(&t->batch);
    free(t->order);
    free(t->net);
    free(t->velocity);
    free(t->upper);
    free(t->lower);
    if (t->losses && fclose(t->losses) != 0)
        fprintf(stderr, "mnist_sgd: --losses %s: %s\n", t->options.losses, strerror(errno));
}

/* ---- Training ------------------------------------------------------------------------------ */

/* Fisher and Yates; every rank draws the same numbers. */
static void trainer_shuffle(struct trainer *t) {
    for (size_t i = t->data.train.count - 1; i > 0; i--) {
        size_t j = (size_t)(random_next(&t->random) % (i + 1));
        uint32_t other = t->order[j];
        t->order[j] = t->order[i];
        t->order[i] = other;
    }
}

/* This rank's share of the batch of `count` samples that begins at `begin` of the order. */
static void trainer_take_share(struct trainer *t, size_t begin, size_t count) {
    const size_t n = (size_t)t->size, r = (size_t)t->rank;
    const size_t first = begin + part_begin(count, n, r);
    t->batch.count = begin + part_begin(count, n, r + 1) - first;
    for (size_t i = 0; i < t->batch.count; i++) {
        const size_t sample = t->order[first + i];
        t->batch.pixels[i] = t->data.train.images + sample * NET_IN;
        t->batch.labels[i] = t->data.train.labels[sample];
    }
}

static void trainer_finish(const struct trainer *t, rcm_work *work, const char *what) {
    check(t, rcm_work_wait(work, -1), what);
    rcm_work_free(work);
}

/* One step of all ranks; returns the loss of the whole batch. */
static float trainer_step(struct trainer *t, size_t begin, size_t count) {
    const float rate = (float)t->options.rate, momentum = (float)t->options.momentum;
    rcm_work *upper_work, *lower_work;

    trainer_take_share(t, begin, count);
    net_forward(t->net, &t->batch, count, t->upper);
    net_backward_upper(&t->batch, t->upper);
    check(t,
          rcm_all_reduce(t->comm, t->upper, t->upper, FLOATS(*t->upper), RCM_FLOAT32, RCM_SUM, NULL,
                         &upper_work),
          "all_reduce of the upper gradient");

    net_backward_lower(t->net, &t->batch, t->lower);
    check(t,
          rcm_all_reduce(t->comm, t->lower, t->lower, FLOATS(*t->lower), RCM_FLOAT32, RCM_SUM, NULL,
                         &lower_work),
          "all_reduce of the lower gradient");

    trainer_finish(t, upper_work, "all_reduce of the upper gradient");
    net_update((float *)&t->net->upper, (float *)&t->velocity->upper, (float *)&t->upper->layer,
               FLOATS(struct net_upper), rate, momentum);
    trainer_finish(t, lower_work, "all_reduce of the lower gradient");
    net_update((float *)&t->net->lower, (float *)&t->velocity->lower, (float *)t->lower,
               FLOATS(struct net_lower), rate, momentum);

    t->steps++;
    if (t->losses)
        fprintf(t->losses, "%.9g\n", (double)t->upper->loss);
    return t->upper->loss;
}

static int trainer_is_done(const struct trainer *t) {
    return t->options.steps > 0 && t->steps >= t->options.steps;
}

/* Returns the mean loss over the samples seen. */
static double trainer_epoch(struct trainer *t) {
    const size_t total = t->data.train.count, batch = (size_t)t->options.batch;
    double loss = 0;
    size_t begin = 0;
    trainer_shuffle(t);
    while (begin < total && !trainer_is_done(t)) {
        size_t count = total - begin < batch ? total - begin : batch;
        loss += (double)trainer_step(t, begin, count) * (double)count;
        begin += count;
    }
    return loss / (double)begin;
}

/* How many of the test digits are classified correctly; each rank tests its share. */
static int64_t trainer_test(struct trainer *t) {
    const size_t n = (size_t)t->size, r = (size_t)t->rank, count = t->data.test.count;
    int64_t right = 0;
    for (size_t i = part_begin(count, n, r); i < part_begin(count, n, r + 1); i++)
        right += net_classify(t->net, t->data.test.images + i * NET_IN) == t->data.test.labels[i];
    check(t, rcm_all_reduce(t->comm, &right, &right, 1, RCM_INT64, RCM_SUM, NULL, NULL),
          "all_reduce of the test result");
    return right;
}

static void trainer_run(struct trainer *t) {
    const struct options *o = &t->options;
    if (t->rank == 0)
        printf("# %d rank%s, network %d-%d-%d, batch %ld, rate %g, momentum %g, seed %ld\n# %s\n",
               t->size, t->size == 1 ? "" : "s", NET_IN, NET_HIDDEN, NET_OUT, o->batch, o->rate,
               o->momentum, o->seed, t->data.source);
    for (long epoch = 1; epoch <= o->epochs && !trainer_is_done(t); epoch++) {
        const double start = now();
        const double loss = trainer_epoch(t), seconds = now() - start;
        const int64_t right = trainer_test(t);
        if (t->rank == 0)
            printf("epoch %ld  loss %.4f  accuracy %.2f %% (%lld of %zu)  %.2f s\n", epoch, loss,
                   100.0 * (double)right / (double)t->data.test.count, (long long)right,
                   t->data.test.count, seconds);
        fflush(stdout);
    }
}

/* ---- The command line ---------------------------------------------------------------------- */

static long parse_long(struct argp_state *state, const char *name, const char *text, long min) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min)
        argp_error(state, "--%s %s: must be a whole number of at least %ld", name, text, min);
    return value;
}

static double parse_real(struct argp_state *state, const char *name, const char *text, double max) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0 && value <= max))
        argp_error(state, "--%s %s: must be a number from 0 to %g", name, text, max);
    return value;
}

static error_t options_parse(int key, char *arg, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'd':
        options->data = arg;
        return 0;
    case 'e':
        options->epochs = parse_long(state, "epochs", arg, 1);
        return 0;
    case 'b':
        options->batch = parse_long(state, "batch", arg, 1);
        return 0;
    case 'r':
        options->rate = parse_real(state, "lr", arg, 100);
        return 0;
    case 'm':
        options->momentum = parse_real(state, "momentum", arg, 1);
        return 0;
    case 's':
        options->seed = parse_long(state, "seed", arg, 0);
        return 0;
    case 'n':
        options->steps = parse_long(state, "steps", arg, 1);
        return 0;
    case 'l':
        options->losses = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: there are no arguments, only options", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_list[] = {
    {"data", 'd', "DIR", 0,
     "folder of the full MNIST set: {train,t10k}-images-idx3-ubyte[.gz] and "
     "-labels-idx1-ubyte[.gz]; without it, the 10,000 digits that come with "
     "the examples, 8,000 to train and 2,000 to test",
     0},
    {"epochs", 'e', "N", 0, "times through the training set (5)", 0},
    {"batch", 'b', "N", 0, "samples per step, of all ranks together (128)", 0},
    {"lr", 'r', "RATE", 0, "learning rate (0.05)", 0},
    {"momentum", 'm', "M", 0, "momentum (0.9)", 0},
    {"seed", 's', "N", 0, "of the first weights and of the order of the samples (1)", 0},
    {"steps", 'n', "N", 0, "stop after N steps", 0},
    {"losses", 'l', "FILE", 0, "write the loss of each step, one per line", 0},
    {0},
};

static const struct argp parser = {
    .options = option_list,
    .parser = options_parse,
    .doc = "Trains a small network on handwritten digits, the gradients summed over all ranks by "
           "libringcomm.\v"
           "Examples:\n"
           "  ringcomm-run -n 4 -- mnist_sgd\n"
           "  ringcomm-run -n 4 -- mnist_sgd --data ~/mnist --epochs 5\n"
           "  ringcomm-run -n 2 -- mnist_sgd --steps 20 --losses losses.txt",
};

int main(int argc, char **argv) {
    struct trainer trainer = {
        .options = {.epochs = 5, .batch = 128, .seed = 1, .rate = 0.05, .momentum = 0.9}};
    if (argp_parse(&parser, argc, argv, 0, NULL, &trainer.options) != 0)
        return 1;
    if (rcm_init(NULL, &trainer.comm) != RCM_OK) {
        fprintf(stderr, "mnist_sgd: %s\n", rcm_last_error());
        return 1;
    }
    trainer.rank = rcm_rank(trainer.comm);
    trainer.size = rcm_size(trainer.comm);
    int well = trainer_prepare(&trainer);
    if (well)
        trainer_run(&trainer);
    trainer_release(&trainer);
    check(&trainer, rcm_destroy(trainer.comm), "destroy");
    return well ? 0 : 1;
}
