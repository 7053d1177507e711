/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of random models. Every value is f32 of at most three dims and 64 elements. */
#include "session/random_model.h"

#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_VALUES = 256, MOST_STATES = 4, MOST_DEPTH = 3 };

typedef struct item {
    int name;
    uint32_t rank;
    int64_t dims[4];
} item;

/* The first dim of sized values is only known at run time, at most 4. */
enum { MOST_SIZED = 32 };

/* A state is read as what its last write gave. What a block wrote is read by the state's own name
 * after it, unless the block around had written too: then nothing names it. */
enum { BY_NAME = -1, NAMELESS = -2 };
typedef struct state_of {
    int name;
    int latest; /* value that the last write gave, BY_NAME or NAMELESS */
    uint32_t writes;
} state_of;

typedef struct maker {
    rlx_test_random random;
    char *text;
    size_t used, room;
    item items[MOST_VALUES]; /* what may be used here */
    uint32_t count;
    state_of states[MOST_STATES];
    uint32_t state_count;
    item sized[MOST_SIZED];
    uint32_t sized_count;
    int next;
    uint32_t depth, nodes_left;
} maker;

static uint32_t below(maker *self, uint32_t limit) {
    return (uint32_t)rlx_test_below(&self->random, limit);
}

static void put(maker *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(maker *self, const char *format, ...) {
    va_list arguments;
    if (self->room - self->used < 1024) {
        self->room = self->room * 2 + 4096;
        self->text = realloc(self->text, self->room);
        assert_non_null(self->text);
    }
    va_start(arguments, format);
    self->used +=
        (size_t)vsnprintf(self->text + self->used, self->room - self->used, format, arguments);
    va_end(arguments);
}

static int64_t elements(const item *x) {
    int64_t product = 1;
    for (uint32_t i = 0; i < x->rank; i++)
        product *= x->dims[i];
    return product;
}

/* Begins a line "vN = " and notes the value. */
static item *define(maker *self, item like) {
    assert_true(self->count < MOST_VALUES);
    like.name = self->next++;
    self->items[self->count] = like;
    put(self, "v%d = ", like.name);
    if (self->nodes_left > 0) self->nodes_left--;
    return &self->items[self->count++];
}

/* Mostly a late one. */
static item pick(maker *self) {
    uint32_t back = below(self, 2) == 0 ? below(self, self->count) : below(self, 3);
    return self->items[self->count - 1 - (back < self->count ? back : 0)];
}

static item unary(maker *self, item x) {
    static const char *const ops[] = {"tanh", "relu", "sigmoid", "neg", "abs", "identity", "sin"};
    item y = *define(self, x);
    put(self, "%s(v%d)\n", ops[below(self, 7)], x.name);
    return y;
}

static item reshape(maker *self, item x, uint32_t rank, const int64_t *dims) {
    item y = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        y.dims[i] = dims[i];
    y = *define(self, y);
    put(self, "reshape(v%d) shape=[", x.name);
    for (uint32_t i = 0; i < rank; i++)
        put(self, "%s%d", i == 0 ? "" : ", ", (int)dims[i]);
    put(self, "]\n");
    return y;
}

static void make_reshape(maker *self) {
    item x = pick(self);
    int64_t left = elements(&x), dims[3] = {1, 1, 1};
    uint32_t rank = 1 + below(self, 3);
    for (uint32_t i = 0; i + 1 < rank; i++) {
        int64_t factor = 1 + below(self, 4);
        while (left % factor != 0)
            factor--;
        dims[i] = factor;
        left /= factor;
    }
    dims[rank - 1] = left;
    reshape(self, x, rank, dims);
}

static item transpose(maker *self, item x) {
    int64_t perm[4];
    item y = {.rank = x.rank};
    for (uint32_t i = 0; i < x.rank; i++)
        perm[i] = i;
    for (uint32_t i = x.rank; i > 1; i--) {
        uint32_t other = below(self, i);
        int64_t held = perm[i - 1];
        perm[i - 1] = perm[other];
        perm[other] = held;
    }
    for (uint32_t i = 0; i < x.rank; i++)
        y.dims[i] = x.dims[perm[i]];
    y = *define(self, y);
    put(self, "transpose(v%d) perm=[", x.name);
    for (uint32_t i = 0; i < x.rank; i++)
        put(self, "%s%d", i == 0 ? "" : ", ", (int)perm[i]);
    put(self, "]\n");
    return y;
}

static void make_transpose(maker *self) {
    item x = pick(self);
    if (x.rank > 1) transpose(self, x);
}

/* Part of an axis, forwards or backwards. */
static void make_slice(maker *self) {
    item x = pick(self);
    if (x.rank == 0) return;
    uint32_t axis = below(self, x.rank);
    int64_t dim = x.dims[axis], first = below(self, (uint32_t)dim);
    int64_t size = 1 + below(self, (uint32_t)(dim - first)), step = 1 + below(self, 2);
    item y = x;
    bool is_back = below(self, 3) == 0;
    y.dims[axis] = (size + step - 1) / step;
    y = *define(self, y);
    if (is_back) {
        put(self, "slice(v%d) starts=[%d] ends=[%d] axes=[%d] steps=[%d]\n", x.name,
            (int)(first + size - 1), first == 0 ? -100 : (int)(first - 1), (int)axis, (int)-step);
    } else {
        put(self, "slice(v%d) starts=[%d] ends=[%d] axes=[%d] steps=[%d]\n", x.name, (int)first,
            (int)(first + size), (int)axis, (int)step);
    }
}

static void make_split(maker *self) {
    item x = pick(self);
    if (x.rank == 0) return;
    uint32_t axis = below(self, x.rank);
    if (x.dims[axis] < 2 || self->count + 2 > MOST_VALUES) return;
    int64_t size = 1 + below(self, (uint32_t)x.dims[axis] - 1);
    item a = x, b = x;
    a.dims[axis] = size;
    b.dims[axis] = x.dims[axis] - size;
    a.name = self->next++;
    b.name = self->next++;
    put(self, "v%d, v%d = split(v%d) axis=%d sizes=[%d, %d]\n", a.name, b.name, x.name, (int)axis,
        (int)a.dims[axis], (int)b.dims[axis]);
    self->items[self->count++] = a;
    self->items[self->count++] = b;
}

/* Two to four values that agree on all axes but one. */
static void make_concat(maker *self) {
    item x = pick(self), parts[4] = {x};
    uint32_t wanted = 2 + below(self, 3), count = 1;
    if (x.rank == 0) return;
    uint32_t axis = below(self, x.rank);
    int64_t total = x.dims[axis];
    for (uint32_t i = self->count; i-- > 0 && count < wanted;) {
        const item *other = &self->items[i];
        bool fits = other->rank == x.rank && below(self, 4) != 0;
        for (uint32_t d = 0; fits && d < x.rank; d++)
            fits = d == axis || other->dims[d] == x.dims[d];
        if (fits) {
            parts[count++] = *other;
            total += other->dims[axis];
        }
    }
    item y = x;
    y.dims[axis] = total;
    if (elements(&y) > 64) return;
    define(self, y);
    put(self, "concat(");
    for (uint32_t i = 0; i < count; i++)
        put(self, "%sv%d", i == 0 ? "" : ", ", parts[i].name);
    put(self, ") axis=%d\n", (int)axis);
}

/* Another value of the same shape, or one that broadcasts. */
static item partner(maker *self, item x) {
    for (uint32_t tries = 0; tries < 12; tries++) {
        item y = pick(self);
        bool fits = y.rank <= x.rank;
        for (uint32_t d = 0; fits && d < y.rank; d++)
            fits = y.dims[d] == x.dims[x.rank - y.rank + d] || y.dims[d] == 1;
        if (fits) return y;
    }
    return x;
}

static void make_binary(maker *self) {
    static const char *const ops[] = {"add", "sub", "mul", "min", "max"};
    item x = pick(self), y = partner(self, x);
    bool is_swapped = below(self, 2) == 0;
    item z = *define(self, x);
    put(self, "%s(v%d, v%d)\n", ops[below(self, 5)], is_swapped ? y.name : x.name,
        is_swapped ? x.name : y.name);
    if (below(self, 2) == 0) unary(self, z);
}

static void make_unary(maker *self) {
    unary(self, pick(self));
}

static void make_expand(maker *self) {
    item x = pick(self), y = x;
    if (x.rank > 2 || elements(&x) > 16) return;
    y.rank++;
    y.dims[0] = 2 + below(self, 2);
    for (uint32_t i = 0; i < x.rank; i++)
        y.dims[i + 1] = x.dims[i];
    y = *define(self, y);
    put(self, "expand(v%d) shape=[", x.name);
    for (uint32_t i = 0; i < y.rank; i++)
        put(self, "%s%d", i == 0 ? "" : ", ", (int)y.dims[i]);
    put(self, "]\n");
}

static void make_reduce(maker *self) {
    item x = pick(self), y = x;
    if (x.rank == 0) return;
    uint32_t axis = below(self, x.rank);
    switch (below(self, 4)) {
    case 0:
        y.dims[axis] = 1;
        define(self, y);
        put(self, "reduce_mean(v%d) axes=[%d] keep_dims=true\n", x.name, (int)axis);
        break;
    case 1:
        define(self, y);
        put(self, "softmax(v%d) axis=%d\n", x.name, (int)axis);
        break;
    case 2:
        define(self, y);
        put(self, "cumsum(v%d) axis=%d%s\n", x.name, (int)axis,
            below(self, 2) == 0 ? " reverse=true" : "");
        unary(self, self->items[self->count - 1]);
        break;
    default:
        define(self, y);
        put(self, "layer_norm(v%d) axis=-1 epsilon=0.01\n", x.name);
    }
}

/* x [.., k] times its own transpose, or a weight from the head of the file. */
static void make_matmul(maker *self) {
    item x = pick(self);
    if (x.rank != 2) return;
    item y = {.rank = 2, .dims = {x.dims[0], x.dims[0]}};
    if (elements(&y) > 64) return;
    y = *define(self, y);
    put(self, "matmul(v%d, v%d) transpose_b=true alpha=0.25\n", x.name, x.name);
    unary(self, y);
}

static void make_pad(maker *self) {
    item x = pick(self), y = x;
    if (x.rank != 2 || elements(&x) > 16) return;
    y.dims[1] += 2;
    define(self, y);
    put(self, "pad(v%d) pads=[0, 1, 0, 1] value=0.5\n", x.name);
}

static void put_state(maker *self, const state_of *state) {
    put(self, state->latest == BY_NAME ? "s%d" : "v%d",
        state->latest == BY_NAME ? state->name : state->latest);
}

static void make_state_read(maker *self) {
    static const char *const ops[] = {"identity", "relu", "slice", "reshape"};
    static const char *const attrs[] = {"", "", " starts=[1] ends=[3]", " shape=[12]"};
    if (self->state_count == 0) return;
    const state_of *state = &self->states[below(self, self->state_count)];
    uint32_t kind = below(self, 4);
    if (state->latest == NAMELESS) return;
    item y = {.rank = 2, .dims = {kind == 2 ? 2 : 4, 3}};
    if (kind == 3) y = (item){.rank = 1, .dims = {12}};
    define(self, y);
    put(self, "%s(", ops[kind]);
    put_state(self, state);
    put(self, ")%s\n", attrs[kind]);
}

/* Rows of a [4, 3] state: anything of three columns, now and then the state itself. */
static void make_state_write(maker *self) {
    if (self->state_count == 0) return;
    state_of *state = &self->states[below(self, self->state_count)];
    for (uint32_t i = self->count; i-- > 0 && state->latest != NAMELESS;) {
        item rows = self->items[i];
        if (rows.rank != 2 || rows.dims[1] != 3 || rows.dims[0] > 4 || below(self, 3) == 0)
            continue;
        int written = self->next++, length = self->next++;
        put(self, "v%d, v%d = state_write(", written, length);
        put_state(self, state);
        put(self, ", ");
        if (below(self, 8) == 0) {
            put_state(self, state);
        } else {
            put(self, "v%d", rows.name);
        }
        put(self, ", at%u) wrap=true\n", below(self, 3));
        state->latest = written;
        state->writes++;
        return;
    }
}

static void put_sized(maker *self, item x) {
    if (self->sized_count < MOST_SIZED) self->sized[self->sized_count++] = x;
}

/* Work on sized values: what keeps the size, and what sums it up. */
static void make_sized(maker *self) {
    if (self->sized_count == 0) return;
    item x = self->sized[below(self, self->sized_count)], y = x;
    switch (below(self, 5)) {
    case 0:
        y.name = self->next++;
        put(self, "v%d = tanh(v%d)\n", y.name, x.name);
        put_sized(self, y);
        break;
    case 1:
        y.name = self->next++;
        put(self, "v%d = mul(v%d, v%d)\n", y.name, x.name, x.name);
        put_sized(self, y);
        break;
    case 2:
        if (x.rank < 2) return;
        y.name = self->next++;
        y.dims[1] = 1;
        put(self, "v%d = slice(v%d) starts=[0] ends=[1] axes=[1]\n", y.name, x.name);
        put_sized(self, y);
        break;
    default: { /* a size of 0 sums up to 0 */
        for (uint32_t i = 1; i < x.rank; i++)
            y.dims[i - 1] = x.dims[i];
        y.rank = x.rank - 1;
        define(self, y);
        put(self, "reduce_sum(v%d) axes=[0]\n", x.name);
        unary(self, self->items[self->count - 1]);
    }
    }
}

/* Rows of v0 where column 0 is positive: the input's own bits decide. */
static void make_nonzero(maker *self) {
    int name = self->next;
    self->next += 6;
    put(self, "v%d = slice(v0) starts=[0] ends=[1] axes=[1]\n", name);
    put(self, "v%d = reshape(v%d) shape=[4]\n", name + 1, name);
    put(self, "v%d = greater(v%d, zero)\n", name + 2, name + 1);
    int count = self->next++;
    put(self, "v%d, v%d = nonzero(v%d)\n", name + 3, count, name + 2);
    put(self, "v%d = squeeze(v%d) axes=[0]\n", name + 4, name + 3);
    item rows = {.name = name + 5, .rank = 2, .dims = {4, 3}};
    if (below(self, 2) == 0) {
        put(self, "v%d = gather(v0, v%d) axis=0\n", rows.name, name + 4);
    } else { /* as many rows, from the first on */
        put(self, "v%d = limit(v0, v%d) axis=0\n", rows.name, count);
    }
    put_sized(self, rows);
}

/* Other dtypes of the same and of other widths, exact from input to result. */
static void make_casts(maker *self) {
    static const char *const to[] = {"i32", "i64", "f64", "i8", "f16"};
    uint32_t dtype = below(self, 5);
    int name = self->next;
    self->next += 3;
    put(self, "v%d = cast(v%u) to=%s\n", name, below(self, 2), to[dtype]);
    put(self, "v%d = %s(v%d, v%d)\n", name + 1, below(self, 2) == 0 ? "max" : "add", name, name);
    put(self, "v%d = %s(v%d)\n", name + 2, below(self, 2) == 0 ? "neg" : "abs", name + 1);
    bool is_first = strstr(self->text + self->used - 100, "cast(v0)") != NULL;
    define(self, self->items[is_first ? 0 : 1]);
    put(self, "cast(v%d) to=f32\n", name + 2);
}

/* A choice by the bits of an input. */
static void make_where(maker *self) {
    item x = self->items[below(self, 2)], a = x, b = partner(self, x);
    int name = self->next++;
    put(self, "v%d = less(v%d, zero)\n", name, x.name);
    define(self, a);
    put(self, "where(v%d, v%d, v%d)\n", name, x.name, b.name);
}

static void make_some(maker *self, uint32_t count);

/* A value of the wanted shape: one that is there, or a reshape or a copy of x. */
static int shaped_like(maker *self, item x) {
    uint32_t first = below(self, self->count);
    for (uint32_t i = 0; i < self->count; i++) {
        item *y = &self->items[(first + i) % self->count];
        if (y->rank == x.rank && memcmp(y->dims, x.dims, x.rank * sizeof *x.dims) == 0)
            return y->name;
    }
    return x.name;
}

static void enter_block(maker *self, state_of *out_states) {
    memcpy(out_states, self->states, sizeof self->states);
    self->depth++;
}

static void leave_block(maker *self, const state_of *states, uint32_t outside, uint32_t sized) {
    for (uint32_t i = 0; i < self->state_count; i++) {
        bool is_written = self->states[i].writes != states[i].writes;
        self->states[i].latest =
            is_written && states[i].latest != BY_NAME ? NAMELESS : states[i].latest;
    }
    self->count = outside;
    self->sized_count = sized;
    self->depth--;
}

/* What blocks define ends with them. */
static void branch_on(maker *self, const char *condition) {
    item x = pick(self), y = pick(self);
    if (self->depth == MOST_DEPTH || self->count + 60 > MOST_VALUES) return;
    int a = self->next++, b = self->next++;
    put(self, "v%d, v%d = if(%s) {\n", a, b, condition);
    uint32_t outside = self->count, sized = self->sized_count;
    for (uint32_t branch = 0; branch < 2; branch++) {
        state_of states[MOST_STATES];
        enter_block(self, states);
        make_some(self, 1 + below(self, 4));
        put(self, "yield v%d, v%d\n%s\n", shaped_like(self, x), shaped_like(self, y),
            branch == 0 ? "} else {" : "}");
        leave_block(self, states, outside, sized);
    }
    x.name = a;
    y.name = b;
    self->items[self->count++] = x;
    self->items[self->count++] = y;
}

static void make_branch(maker *self) {
    branch_on(self, below(self, 2) == 0 ? "c0" : "c1");
}

/* One that is known while compiling. */
static void make_fixed_branch(maker *self) {
    branch_on(self, below(self, 2) == 0 ? "yes" : "no");
}

/* Carries two or three values of one shape, which may change places, and stacks one. */
static void make_loop(maker *self) {
    item x = pick(self), carried[3] = {x, x, x};
    state_of states[MOST_STATES];
    uint32_t count = 2 + below(self, 2), outside = self->count, sized = self->sized_count;
    if (self->depth == MOST_DEPTH || self->count + 60 > MOST_VALUES || elements(&x) > 24) return;
    int outputs = self->next, stacked = outputs + (int)count, trips = stacked + 1;
    self->next += (int)count + 2;
    for (uint32_t i = 0; i < count; i++)
        put(self, "v%d, ", outputs + (int)i);
    put(self, "v%d, v%d = loop(n, c%u", stacked, trips, below(self, 2));
    for (uint32_t i = 0; i < count; i++)
        put(self, ", v%d", i == 0 ? x.name : shaped_like(self, x));
    put(self, ") bound=4 (v%d", self->next++);
    for (uint32_t i = 0; i < count; i++) {
        carried[i].name = self->next++;
        put(self, ", v%d", carried[i].name);
        self->items[self->count++] = carried[i];
    }
    put(self, ") {\n");
    enter_block(self, states);
    make_some(self, 1 + below(self, 5));
    put(self, "yield yes");
    for (uint32_t i = 0; i < count; i++)
        put(self, ", v%d", shaped_like(self, x));
    put(self, ", v%d\n}\n", shaped_like(self, x));
    leave_block(self, states, outside, sized);
    for (uint32_t i = 0; i < count; i++) {
        x.name = outputs + (int)i;
        self->items[self->count++] = x;
    }
    item rows = {.name = stacked, .rank = x.rank + 1, .dims = {4}};
    for (uint32_t i = 0; i < x.rank; i++)
        rows.dims[i + 1] = x.dims[i];
    if (x.rank < 3) put_sized(self, rows);
    if (self->depth == 0 && below(self, 2) == 0) put(self, "output v%d\n", stacked);
}

static void make_some(maker *self, uint32_t count) {
    static void (*const makers[])(maker *) = {
        make_unary,   make_binary, make_binary, make_reshape,      make_transpose,
        make_slice,   make_split,  make_concat, make_concat,       make_expand,
        make_reduce,  make_matmul, make_branch, make_state_read,   make_state_write,
        make_loop,    make_pad,    make_slice,  make_sized,        make_sized,
        make_nonzero, make_casts,  make_where,  make_fixed_branch,
    };
    for (uint32_t i = 0; i < count && self->count + 16 < MOST_VALUES && self->nodes_left > 0; i++)
        makers[below(self, sizeof makers / sizeof *makers)](self);
}

static void make_head(maker *self) {
    static const item inputs[] = {{0, 2, {4, 3, 0, 0}}, {1, 3, {2, 4, 2, 0}}};
    put(self, "rlx 1\ninput v0 : f32[4, 3]\ninput v1 : f32[2, 4, 2]\n"
              "input c0 : bool[]\ninput c1 : bool[]\ninput n : i64[]\n"
              "param v2 : f32[3, 4] = seeded(5, 0.5)\nconst v3 : f32[3] = [0.5, -1, 0.25]\n"
              "const at0 : i64[] = [0]\nconst at1 : i64[] = [1]\nconst at2 : i64[] = [3]\n"
              "const yes : bool[] = [true]\nconst no : bool[] = [false]\n"
              "const zero : f32[] = [0]\n");
    self->items[0] = inputs[0];
    self->items[1] = inputs[1];
    self->items[2] = (item){2, 2, {3, 4}};
    self->items[3] = (item){3, 1, {3}};
    self->count = 4;
    self->next = 4;
    self->state_count = below(self, MOST_STATES);
    for (uint32_t i = 0; i < self->state_count; i++) {
        put(self, "state s%u : f32[4, 3]\n", i);
        self->states[i] = (state_of){.name = (int)i, .latest = BY_NAME};
    }
}

char *random_model(uint64_t seed) {
    bool is_large = seed % 8 == 0;
    maker self = {.random = rlx_test_seed(seed), .nodes_left = is_large ? 250 : 60};
    make_head(&self);
    make_some(&self, is_large ? 40 + below(&self, 100) : 4 + below(&self, 20));
    for (uint32_t i = 0; i < 4; i++)
        put(&self, "output v%d as \"out%u\"\n", pick(&self).name, i);
    for (uint32_t i = 0; i < 2 && self.sized_count != 0; i++) {
        int name = self.sized[below(&self, self.sized_count)].name;
        put(&self, "output v%d as \"sized%u\"\n", name, i);
    }
    for (uint32_t i = 0; i < self.state_count; i++) {
        if (self.states[i].latest == NAMELESS || below(&self, 4) != 0) continue;
        put(&self, "output ");
        put_state(&self, &self.states[i]);
        put(&self, " as \"state%u\"\n", i);
    }
    return self.text;
}
