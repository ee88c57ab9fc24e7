/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network of two layers for 28 x 28 digits: 784 pixels -> 128 hidden (ReLU) -> 10 classes
 * (softmax, cross-entropy). It does not use ranks. Its gradients are sums over the given samples,
 * divided by the size of the whole (global) batch. The sum over all ranks is therefore the mean of
 * the global batch, also if the shares differ.
 *
 * Backward has two halves, so an all-reduce can sum the upper layer's gradient while the lower
 * layer's is computed.
 */
#ifndef EXAMPLE_NET_H
#define EXAMPLE_NET_H

#include <stddef.h>
#include <stdint.h>

#define NET_IN     784
#define NET_HIDDEN 128
#define NET_OUT    10

/* Weights are stored input by input, so the inner loops run over neighbouring floats. Each struct
 * consists of floats only: one array for an all-reduce. */
struct net_lower {
    float weight[NET_IN][NET_HIDDEN];
    float bias[NET_HIDDEN];
};
struct net_upper {
    float weight[NET_HIDDEN][NET_OUT];
    float bias[NET_OUT];
};
struct net {
    struct net_lower lower;
    struct net_upper upper;
};

/* The loss is part of the upper gradient, which saves an all-reduce. */
struct net_upper_gradient {
    struct net_upper layer;
    float loss; /* cross-entropy of the samples divided by the size of the global batch */
};

#define FLOATS(type) (sizeof(type) / sizeof(float))

/* The samples of one step, and what forward stores for backward. */
struct net_batch {
    size_t capacity, count;
    const uint8_t **pixels; /* NET_IN bytes each; the caller's */
    uint8_t *labels;
    float (*hidden)[NET_HIDDEN]; /* after ReLU */
    float (*delta)[NET_OUT];     /* derivative of the loss by the softmax inputs */
};

/* 0, or -1 if there is no memory. */
int net_batch_init(struct net_batch *batch, size_t capacity);
void net_batch_fini(struct net_batch *batch);

/* Weights from a seed: uniform with the variance of He et al. 2015; biases 0. */
void net_init(struct net *net, uint64_t seed);

/* Fills batch->hidden and batch->delta and sets gradient->loss. */
void net_forward(const struct net *net, struct net_batch *batch, size_t global_count,
                 struct net_upper_gradient *ret_gradient);
/* Sets the rest of the upper gradient. */
void net_backward_upper(const struct net_batch *batch, struct net_upper_gradient *ret_gradient);
/* Sets the lower gradient; overwrites batch->hidden. */
void net_backward_lower(const struct net *net, struct net_batch *batch,
                        struct net_lower *ret_gradient);

/* One step with momentum: velocity = momentum * velocity + gradient, weight -= rate * velocity. */
void net_update(float *weight, float *velocity, const float *gradient, size_t count, float rate,
                float momentum);

/* The class with the largest output for one image. */
int net_classify(const struct net *net, const uint8_t *pixels);

/* The next number of a small generator (splitmix64, public domain, Sebastiano Vigna). */
uint64_t random_next(uint64_t *state);

#endif
