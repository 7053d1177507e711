/* SPDX-License-Identifier: Apache-2.0 */
/* Text models, written in two parts: parameters as they are needed, and the nodes. */
#include "session/stream_model.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 64, MOST_BYTES = 64 << 10 };

typedef struct maker {
    rlx_test_random random;
    char params[MOST_BYTES], nodes[MOST_BYTES];
    size_t param_length, node_length;
    unsigned names, weights;
    unsigned rows[256], cols[256]; /* of each weight */
} maker;

static unsigned below(maker *self, unsigned limit) {
    return (unsigned)rlx_test_below(&self->random, limit);
}

static void say(char *text, size_t *length, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(text + *length, MOST_BYTES - *length, format, arguments);
    va_end(arguments);
    assert_true(count >= 0 && *length + (size_t)count < MOST_BYTES);
    *length += (size_t)count;
}
#define NODE(...)  say(self->nodes, &self->node_length, __VA_ARGS__)
#define PARAM(...) say(self->params, &self->param_length, __VA_ARGS__)

/* A weight of this size: a new one, or now and then one that was used before. */
static unsigned weight(maker *self, unsigned rows, unsigned cols) {
    for (unsigned tries = below(self, 5); tries > 0 && self->weights > 0; tries--) {
        unsigned old = below(self, self->weights);
        if (self->rows[old] == rows && self->cols[old] == cols) return old;
    }
    assert_true(self->weights < 256);
    PARAM("param w%u : f32[%u, %u] = seeded(%u, 0.1)\n", self->weights, rows, cols,
          self->weights + 1);
    self->rows[self->weights] = rows;
    self->cols[self->weights] = cols;
    return self->weights++;
}

static unsigned product(maker *self, unsigned x, unsigned rows, unsigned cols) {
    unsigned y = self->names++;
    NODE("v%u = matmul(v%u, w%u)\n", y, x, weight(self, rows, cols));
    return y;
}

static unsigned tame(maker *self, unsigned x) {
    unsigned y = self->names++;
    NODE("v%u = tanh(v%u)\n", y, x);
    return y;
}

static unsigned shifted(maker *self, unsigned x) {
    unsigned y = self->names++;
    PARAM("param p%u : f32[%u] = seeded(%u, 0.2)\n", y, WIDTH, y + 1000);
    NODE("v%u = %s(v%u, p%u)\n", y, below(self, 2) == 0 ? "add" : "mul", x, y);
    return y;
}

static unsigned layers(maker *self, unsigned x, unsigned depth);

static unsigned branch(maker *self, unsigned x, unsigned depth) {
    unsigned y = self->names++;
    NODE("v%u = if(c) {\n", y);
    unsigned a = layers(self, x, depth + 1);
    NODE("yield v%u\n} else {\n", a);
    unsigned b = below(self, 3) == 0 ? tame(self, x) : layers(self, x, depth + 1);
    NODE("yield v%u\n}\n", b);
    return y;
}

static unsigned loop(maker *self, unsigned x, unsigned depth) {
    unsigned y = self->names++, carried = self->names++, rounds = self->names++;
    NODE("v%u, v%u = loop(n, _, v%u) bound=3 (v%u, v%u) {\n", y, self->names++, x, rounds, carried);
    unsigned next = layers(self, carried, depth + 1), more = self->names++;
    NODE("v%u = less(v%u, n)\nyield v%u, v%u\n}\n", more, rounds, more, next);
    return y;
}

static unsigned layers(maker *self, unsigned x, unsigned depth) {
    unsigned count = 1 + below(self, depth == 0 ? 12 : 4);
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = below(self, 12);
        if (kind < 5) {
            x = tame(self, product(self, x, WIDTH, WIDTH));
        } else if (kind < 7) {
            x = tame(self, product(self, product(self, x, WIDTH, 16), 16, WIDTH));
        } else if (kind < 9) {
            x = shifted(self, x);
        } else if (kind == 9) { /* two weights at once */
            unsigned a = product(self, x, WIDTH, WIDTH), b = product(self, x, WIDTH, WIDTH);
            NODE("v%u = mul(v%u, v%u)\n", self->names, a, b);
            x = tame(self, self->names++);
        } else if (depth < 2) {
            x = kind == 10 ? branch(self, x, depth) : loop(self, x, depth);
        }
    }
    return tame(self, x);
}

char *stream_model(uint64_t seed) {
    maker *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->random = rlx_test_seed(seed);
    NODE("v0 = tanh(x)\n");
    self->names = 1;
    unsigned last = layers(self, 0, 0);
    char *text = malloc(2 * (size_t)MOST_BYTES + 200);
    assert_non_null(text);
    sprintf(text,
            "rlx 1\ninput x : f32[3, %u]\ninput c : bool[]\ninput n : i64[]\n%s%soutput v%u\n",
            WIDTH, self->params, self->nodes, last);
    free(self);
    return text;
}
