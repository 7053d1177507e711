/* SPDX-License-Identifier: Apache-2.0 */
/* Random networks of images, for what convolutions meet: groups that fill blocks of channels and
 * groups that do not, shuffles, heads of few channels, pools, resizes, and moves between them. */
#include "session/random_model.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_IMAGES = 24, ROOM = 1 << 14, MOST_CHANNELS = 72 };

typedef struct image {
    int name;
    int c, h, w;
} image;

typedef struct painter {
    rlx_test_random random;
    char *params, *nodes; /* texts */
    size_t params_used, nodes_used;
    image images[MOST_IMAGES];
    uint32_t count;
    int batch, next;
} painter;

static int below(painter *self, int limit) {
    return (int)rlx_test_below(&self->random, (uint64_t)limit);
}

static void put(char *text, size_t *used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put(char *text, size_t *used, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    *used += (size_t)vsnprintf(text + *used, ROOM - *used, format, arguments);
    va_end(arguments);
    assert_true(*used < ROOM);
}
#define NODE(...)  put(self->nodes, &self->nodes_used, __VA_ARGS__)
#define PARAM(...) put(self->params, &self->params_used, __VA_ARGS__)

static image pick(painter *self) {
    uint32_t back = (uint32_t)below(self, 3); /* mostly the latest */
    return self->images[self->count - 1 - (back < self->count ? back : 0)];
}

/* The next node's result. */
static image *define(painter *self, int c, int h, int w) {
    image *made = &self->images[self->count++];
    *made = (image){self->next++, c, h, w};
    return made;
}

static const char *activation(painter *self) {
    static const char *const all[] = {"", " activation=relu", " activation=sigmoid",
                                      " activation=clip activation_alpha=-1 activation_beta=2"};
    return all[below(self, 4)];
}

/* Another image of the same shape; `x` itself if there is none. */
static image like(painter *self, image x) {
    for (uint32_t i = 0; i < self->count; i++) {
        const image *other = &self->images[i];
        if (other->name != x.name && other->c == x.c && other->h == x.h && other->w == x.w)
            return *other;
    }
    return x;
}

static void make_conv(painter *self) {
    static const int wide[] = {1, 2, 3, 7, 8, 16, 17, 24, 32, 34, 48};
    image x = pick(self), *y;
    int groups = 1, out = wide[below(self, 11)], kind = below(self, 4), number = self->next;
    int k = x.h < 3 || x.w < 3 || below(self, 2) ? 1 : 3, s = x.h > 6 ? 1 + below(self, 2) : 1;
    if (kind == 0) groups = out = x.c;
    if (kind == 1) {
        static const int some[] = {2, 3, 4, 8};
        groups = some[below(self, 4)];
        if (x.c % groups != 0) groups = 1;
        out = groups * (1 + below(self, MOST_CHANNELS / 2 / groups));
    }
    PARAM("param w%d : f32[%d, %d, %d, %d] = seeded(%d, %g)\n", number, out, x.c / groups, k, k,
          number, 1.5 / (1 + x.c / groups * k * k / 8));
    PARAM("param b%d : f32[%d] = seeded(%d, 0.2)\n", number, out, number + 100);
    y = define(self, out, (x.h + 2 * (k / 2) - k) / s + 1, (x.w + 2 * (k / 2) - k) / s + 1);
    image r = like(self, *y);
    NODE("v%d = conv(v%d, w%d, b%d", y->name, x.name, number, number);
    if (r.name != y->name && below(self, 2)) NODE(", v%d", r.name);
    NODE(") groups=%d strides=[%d, %d] pads=[%d, %d, %d, %d]%s\n", groups, s, s, k / 2, k / 2,
         k / 2, k / 2, activation(self));
}

static void make_shuffle(painter *self) {
    image x = pick(self), *y;
    int groups = x.c % 4 == 0 ? 4 : x.c % 2 == 0 ? 2 : 1, number = self->next;
    y = define(self, x.c, x.h, x.w);
    NODE("i%d = reshape(v%d) shape=[%d, %d, %d, %d, %d]\n", number, x.name, self->batch, groups,
         x.c / groups, x.h, x.w);
    NODE("j%d = transpose(i%d) perm=[0, 2, 1, 3, 4]\n", number, number);
    NODE("v%d = reshape(j%d) shape=[%d, %d, %d, %d]\n", y->name, number, self->batch, x.c, x.h,
         x.w);
}

static void make_pool(painter *self) {
    image x = pick(self), *y;
    int k = x.h >= 5 && x.w >= 5 && below(self, 2) ? 5 : 3, s = x.h > 6 ? 1 + below(self, 2) : 1;
    if (x.h < 3 || x.w < 3) return;
    y = define(self, x.c, (x.h + 2 * (k / 2) - k) / s + 1, (x.w + 2 * (k / 2) - k) / s + 1);
    NODE("v%d = %s(v%d) kernel=[%d, %d] strides=[%d, %d] pads=[%d, %d, %d, %d]\n", y->name,
         below(self, 2) ? "max_pool" : "average_pool", x.name, k, k, s, s, k / 2, k / 2, k / 2,
         k / 2);
}

static void make_repeat(painter *self) {
    image x = pick(self), *y;
    int number = self->next;
    if (x.h > 8 || x.w > 8) return;
    y = define(self, x.c, 2 * x.h, 2 * x.w);
    NODE("i%d = reshape(v%d) shape=[%d, %d, %d, 1, %d, 1]\n", number, x.name, self->batch, x.c, x.h,
         x.w);
    NODE("j%d = expand(i%d) shape=[%d, %d, %d, 2, %d, 2]\n", number, number, self->batch, x.c, x.h,
         x.w);
    NODE("v%d = reshape(j%d) shape=[%d, %d, %d, %d]\n", y->name, number, self->batch, x.c, 2 * x.h,
         2 * x.w);
}

static void make_slice(painter *self) {
    image x = pick(self), *y;
    if (below(self, 2) && x.c > 1) { /* often at the border of a block */
        int half = x.c % 16 == 0 ? x.c / 2 : 1 + below(self, x.c - 1), is_first = below(self, 2);
        y = define(self, is_first ? half : x.c - half, x.h, x.w);
        NODE("v%d = slice(v%d) axes=[1] starts=[%d] ends=[%d]\n", y->name, x.name,
             is_first ? 0 : half, is_first ? half : x.c);
    } else if (x.h > 3 && x.w > 3) {
        y = define(self, x.c, (x.h + 1) / 2, x.w - 1);
        NODE("v%d = slice(v%d) axes=[-2, 3] starts=[0, 1] ends=[%d, %d] steps=[2, 1]\n", y->name,
             x.name, x.h, x.w);
    }
}

static void make_pad(painter *self) {
    image x = pick(self), *y;
    if (x.h < 2 || x.w < 2 || x.h > 12) return;
    y = define(self, x.c, x.h + 1, x.w + 2);
    NODE("v%d = pad(v%d) pads=[0, 0, 1, 1, 0, 0, 0, 1] mode=%s\n", y->name, x.name,
         below(self, 2) ? "reflect" : "constant");
}

static void make_concat(painter *self) {
    image x = pick(self), other = self->images[below(self, (int)self->count)], *y;
    if (other.h != x.h || other.w != x.w || other.c + x.c > MOST_CHANNELS) return;
    y = define(self, x.c + other.c, x.h, x.w);
    NODE("v%d = concat(v%d, v%d) axis=1\n", y->name, x.name, other.name);
}

static void make_elementwise(painter *self) {
    image x = pick(self), other = like(self, x);
    int kind = below(self, 3), number = define(self, x.c, x.h, x.w)->name;
    if (kind == 0) NODE("v%d = add(v%d, v%d)\n", number, x.name, other.name);
    if (kind == 1) NODE("v%d = hard_swish(v%d)\n", number, x.name);
    if (kind == 2) { /* as squeeze and excite */
        NODE("i%d = reduce_mean(v%d) axes=[2, 3] keep_dims=true\nj%d = sigmoid(i%d)\n", number,
             x.name, number, number);
        NODE("v%d = mul(v%d, j%d)\n", number, x.name, number);
    }
}

char *random_images(uint64_t seed) {
    static void (*const makers[])(painter *) = {
        make_conv,  make_conv, make_conv,   make_conv,    make_pool,        make_repeat,
        make_slice, make_pad,  make_concat, make_shuffle, make_elementwise, make_elementwise};
    static const int channels[] = {3, 8, 16, 17, 24, 34, 64};
    painter all = {.random = rlx_test_seed(seed)}, *self = &all;
    self->params = malloc(ROOM), self->nodes = malloc(ROOM);
    assert_non_null(self->params);
    assert_non_null(self->nodes);
    self->batch = 1 + below(self, 2);
    image *x = define(self, channels[below(self, 7)], 5 + below(self, 8), 5 + below(self, 12));
    PARAM("rlx 1\ninput v0 : f32[%d, %d, %d, %d]\n", self->batch, x->c, x->h, x->w);
    for (int tries = 0; tries < 40 && self->count < 14; tries++)
        makers[below(self, sizeof makers / sizeof *makers)](self);
    for (uint32_t i = self->count > 3 ? self->count - 3 : 1; i < self->count; i++)
        NODE("output v%d\n", self->images[i].name);
    put(self->params, &self->params_used, "%s", self->nodes);
    free(self->nodes);
    return self->params;
}
