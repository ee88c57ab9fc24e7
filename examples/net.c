/* SPDX-License-Identifier: BSD-3-Clause */
/* Forward and backward in plain loops that compilers vectorise; see net.h. */
#include "net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int net_batch_init(struct net_batch *batch, size_t capacity) {
    size_t room = capacity > 0 ? capacity : 1;
    *batch = (struct net_batch){.capacity = capacity};
    batch->pixels = calloc(room, sizeof *batch->pixels);
    batch->labels = calloc(room, sizeof *batch->labels);
    batch->hidden = calloc(room, sizeof *batch->hidden);
    batch->delta = calloc(room, sizeof *batch->delta);
    if (batch->pixels && batch->labels && batch->hidden && batch->delta)
        return 0;
    net_batch_fini(batch);
    return -1;
}

void net_batch_fini(struct net_batch *batch) {
    free(batch->pixels);
    free(batch->labels);
    free(batch->hidden);
    free(batch->delta);
    *batch = (struct net_batch){0};
}

uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void weights_init(float *weights, size_t count, size_t inputs, uint64_t *random) {
    const float bound = sqrtf(6.0f / (float)inputs);
    for (size_t i = 0; i < count; i++)
        weights[i] = bound * (2.0f * (float)(random_next(random) >> 40) / (float)(1 << 24) - 1.0f);
}

void net_init(struct net *net, uint64_t seed) {
    memset(net, 0, sizeof *net);
    weights_init(&net->lower.weight[0][0], NET_IN * NET_HIDDEN, NET_IN, &seed);
    weights_init(&net->upper.weight[0][0], NET_HIDDEN * NET_OUT, NET_HIDDEN, &seed);
}

/* Skips pixels of 0, which are four fifths of a digit. */
static void lower_forward(const struct net_lower *lower, const uint8_t *pixels, float *hidden) {
    float sum[NET_HIDDEN];
    memcpy(sum, lower->bias, sizeof sum);
    for (size_t k = 0; k < NET_IN; k++) {
        if (pixels[k] == 0)
            continue;
        const float x = (float)pixels[k] / 255.0f;
        for (size_t j = 0; j < NET_HIDDEN; j++)
            sum[j] += x * lower->weight[k][j];
    }
    for (size_t j = 0; j < NET_HIDDEN; j++)
        hidden[j] = sum[j] > 0 ? sum[j] : 0;
}

static void upper_forward(const struct net_upper *upper, const float *hidden, float *out) {
    memcpy(out, upper->bias, sizeof upper->bias);
    for (size_t k = 0; k < NET_HIDDEN; k++)
        for (size_t j = 0; j < NET_OUT; j++)
            out[j] += hidden[k] * upper->weight[k][j];
}

/* Replaces out by probabilities and returns the logarithm of the probability of `label`. */
static float softmax(float *out, int label) {
    float largest = out[0], sum = 0;
    for (size_t j = 1; j < NET_OUT; j++)
        largest = out[j] > largest ? out[j] : largest;
    const float shifted = out[label] - largest;
    for (size_t j = 0; j < NET_OUT; j++) {
        out[j] = expf(out[j] - largest);
        sum += out[j];
    }
    for (size_t j = 0; j < NET_OUT; j++)
        out[j] /= sum;
    return shifted - logf(sum);
}

void net_forward(const struct net *net, struct net_batch *batch, size_t global_count,
                 struct net_upper_gradient *ret_gradient) {
    const float scale = 1.0f / (float)global_count;
    double loss = 0;
    for (size_t i = 0; i < batch->count; i++) {
        float *delta = batch->delta[i];
        lower_forward(&net->lower, batch->pixels[i], batch->hidden[i]);
        upper_forward(&net->upper, batch->hidden[i], delta);
        loss -= softmax(delta, batch->labels[i]);
        delta[batch->labels[i]] -= 1.0f;
        for (size_t j = 0; j < NET_OUT; j++)
            delta[j] *= scale;
    }
    ret_gradient->loss = (float)(loss / (double)global_count);
}

void net_backward_upper(const struct net_batch *batch, struct net_upper_gradient *ret_gradient) {
    struct net_upper *gradient = &ret_gradient->layer;
    memset(gradient, 0, sizeof *gradient);
    for (size_t i = 0; i < batch->count; i++) {
        const float *hidden = batch->hidden[i], *delta = batch->delta[i];
        for (size_t k = 0; k < NET_HIDDEN; k++)
            for (size_t j = 0; j < NET_OUT; j++)
                gradient->weight[k][j] += hidden[k] * delta[j];
        for (size_t j = 0; j < NET_OUT; j++)
            gradient->bias[j] += delta[j];
    }
}

/* Replaces hidden by the derivative by the ReLU inputs: 0 where the ReLU returned 0. */
static void hidden_backward(const struct net_upper *upper, const float *delta, float *hidden) {
    for (size_t k = 0; k < NET_HIDDEN; k++) {
        float sum = 0;
        for (size_t j = 0; j < NET_OUT; j++)
            sum += upper->weight[k][j] * delta[j];
        hidden[k] = hidden[k] > 0 ? sum : 0;
    }
}

void net_backward_lower(const struct net *net, struct net_batch *batch,
                        struct net_lower *ret_gradient) {
    memset(ret_gradient, 0, sizeof *ret_gradient);
    for (size_t i = 0; i < batch->count; i++) {
        const uint8_t *pixels = batch->pixels[i];
        float *hidden = batch->hidden[i];
        hidden_backward(&net->upper, batch->delta[i], hidden);
        for (size_t k = 0; k < NET_IN; k++) {
            if (pixels[k] == 0)
                continue;
            const float x = (float)pixels[k] / 255.0f;
            for (size_t j = 0; j < NET_HIDDEN; j++)
                ret_gradient->weight[k][j] += x * hidden[j];
        }
        for (size_t j = 0; j < NET_HIDDEN; j++)
            ret_gradient->bias[j] += hidden[j];
    }
}

void net_update(float *weight, float *velocity, const float *gradient, size_t count, float rate,
                float momentum) {
    for (size_t i = 0; i < count; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        weight[i] -= rate * velocity[i];
    }
}

int net_classify(const struct net *net, const uint8_t *pixels) {
    float hidden[NET_HIDDEN], out[NET_OUT];
    int best = 0;
    lower_forward(&net->lower, pixels, hidden);
    upper_forward(&net->upper, hidden, out);
    for (int j = 1; j < NET_OUT; j++)
        best = out[j] > out[best] ? j : best;
    return best;
}
