/* SPDX-License-Identifier: Apache-2.0 */
/* Conv of f32 with channels in planes, [N][C][spatial..]: groups that fill no blocks, few outputs,
 * three spatial axes. Weights are as they came, [M][depth], depth being (input channel, tap).
 *
 * A tile is ROWS output channels x WIDTH output positions, which lie side by side in y. Inputs of
 * one tap are read where they are if they lie side by side too; others are first copied to the
 * workspace, [depth][WIDTH], with the padding written out. The depth is cut into parts that stay in
 * the first cache for all channels of an item; sums wait in y between two parts, and the first part
 * takes the residual along, so it may lie in the same memory. */
#include "backend/cpu/vec/activation.h"
#include "backend/cpu/vec/rows.h"
#include "ir/window.h"

enum {
    X = RLX_MAX_SPATIAL - 1,
    VECTORS = VF < 8 ? 4 : 2,
    WIDTH = VECTORS * VF, /* positions of a tile */
    ROWS = 6,             /* channels of a tile: 12 or 24 sums of vectors */
    PART = 288,           /* of the depth at most */
    FEW = 4,              /* so many positions at the end of a plane are done one by one */
    DOTS = 8,
    STRIP = 8,        /* panels that are done together, */
    STRIP_COPIED = 4, /* and where their inputs are copied first */
    FAR_BYTES = 2048, /* planes that lie a multiple of it apart share few places in a cache */
    MANY_TILES = 3,
    WANTED_ITEMS = 16
};

/* Spatial axes are always 3; missing ones in front are 1 wide. Strides in elements. */
typedef struct planes {
    const float *x, *w, *bias, *residual;
    float *y;
    int64_t x_n, x_channel, y_n, y_channel, residual_n, residual_channel, w_row, bias_stride;
    int64_t merged; /* groups that share rows of w, side by side */
    int64_t x_strides[RLX_MAX_SPATIAL];
    rlx_window axes[RLX_MAX_SPATIAL];
    int64_t batch, groups, in, out; /* channels of a group */
    int64_t taps, depth, positions;
    bool is_staged,
        is_copied; /* with all taps; as they are, since planes are in each other's way */
    const rlx_activation *activation;
    /* How outputs are cut. */
    int64_t panels, tiles, column_items, row_items, parts;
} planes;

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static bool is_point(const rlx_window *w) {
    return w->kernel == 1 && w->stride == 1 && w->begin == 0 && w->in == w->out;
}

static void set_axes(planes *self, const rlx_kernel_args *args) {
    const rlx_tensor *x = &args->in[0], *w = &args->in[1];
    uint32_t spatial = w->rank - 2, missing = RLX_MAX_SPATIAL - spatial;
    rlx_windows windows = {0};
    rlx_status status = rlx_windows_conv(args->attrs, spatial, x->dims + 2, w->dims + 2, &windows);
    RLX_ASSERT(status == RLX_OK); /* the shape rule asked the same */
    (void)status;
    int64_t step = 1;
    self->taps = self->positions = 1;
    for (int i = X; i >= 0; i--) {
        bool is_real = i >= (int)missing;
        rlx_window *axis = &self->axes[i];
        *axis = is_real ? windows.axes[i - (int)missing]
                        : (rlx_window){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
        self->x_strides[i] = is_real ? x->strides[2 + i - (int)missing] : step;
        if (!is_point(axis) || (axis->in > 1 && self->x_strides[i] != step)) self->is_staged = true;
        step *= axis->in;
        self->taps *= axis->kernel;
        self->positions *= axis->out;
    }
}

/* At least WANTED_ITEMS where there are so many tiles: positions are cut first. */
static void set_cut(planes *self) {
    int64_t others = self->batch * self->groups;
    self->panels = divide_up(self->positions, WIDTH);
    self->tiles = divide_up(self->out, ROWS);
    self->parts = divide_up(self->depth, PART);
    self->column_items = self->row_items = 1;
    if (others == 0 || self->panels == 0 || self->tiles == 0) return;
    self->column_items = rlx_ref_least(self->panels, divide_up(WANTED_ITEMS, others));
    self->row_items =
        rlx_ref_least(self->tiles, divide_up(WANTED_ITEMS, others * self->column_items));
}

static planes planes_of(const rlx_kernel_args *args) {
    const rlx_conv_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0], *w = &args->in[1], *y = &args->out[0];
    planes self = {.x = x->data,
                   .w = w->data,
                   .y = y->data,
                   .x_n = x->strides[0],
                   .x_channel = x->strides[1],
                   .y_n = y->strides[0],
                   .y_channel = y->strides[1],
                   .w_row = w->strides[0],
                   .batch = y->dims[0],
                   .groups = attrs->groups == 0 ? 1 : attrs->groups,
                   .merged = attrs->merged == 0 ? 1 : attrs->merged,
                   .activation = &attrs->activation};
    set_axes(&self, args);
    self.groups *= self.merged;
    self.in = w->dims[1] / self.merged;
    self.out = w->dims[0] / self.groups;
    self.depth = self.in * self.taps;
    if (args->in_count > 2 && args->in[2].data != NULL) {
        self.bias = args->in[2].data;
        self.bias_stride = args->in[2].strides[0];
    }
    if (args->in_count > 3 && args->in[3].data != NULL) {
        self.residual = args->in[3].data;
        self.residual_n = args->in[3].strides[0];
        self.residual_channel = args->in[3].strides[1];
    }
    set_cut(&self);
    self.is_copied = !self.is_staged && self.tiles >= MANY_TILES &&
                     self.x_channel % (FAR_BYTES / (int64_t)sizeof(float)) == 0;
    return self;
}

/* tiles */

typedef struct planes_tile {
    const float *x, *w;
    int64_t x_step, w_row, depth;
    const float *start; /* what is added to the sums: the residual, or y; NULL: nothing */
    float *y;
    int64_t start_row, y_row;
    const float *bias; /* per row; NULL: none, or it is in already */
    int64_t bias_stride;
    vf low, high; /* bounds of the results */
} planes_tile;

/* Sums are variables, as in conv_tile.h: row r has a (the first vector), b, c and d. */
/* clang-format off */
#define EACH_ROW(M) M(0) M(1) M(2) M(3) M(4) M(5)
/* clang-format on */
#define STEP_ROW(r)                                      \
    if (R > r) {                                         \
        vf one = vf_set(w##r[i + k]);                    \
        vf_add_product(&a##r, one, x0);                  \
        vf_add_product(&b##r, one, x1);                  \
        if (VECTORS > 2) vf_add_product(&c##r, one, x2); \
        if (VECTORS > 2) vf_add_product(&d##r, one, x3); \
    }
/* The same place of the next tile is asked for. */
#define STEP(step)                                                  \
    do {                                                            \
        enum { k = step };                                          \
        vf x0 = vf_load(x), x1 = vf_load(x + VF), x2 = x0, x3 = x1; \
        if (VECTORS > 2) x2 = vf_load(x + 2 * VF);                  \
        if (VECTORS > 2) x3 = vf_load(x + 3 * VF);                  \
        __builtin_prefetch(x + 2 * WIDTH - 1);                      \
        x += x_step;                                                \
        EACH_ROW(STEP_ROW)                                          \
        (void)x2, (void)x3;                                         \
    } while (0);
#define AIM_ROW(r) const float *w##r = tile->w + (R > r ? r : 0) * tile->w_row;
#define BIAS_ROW(r)                                                                    \
    vf a##r = {0};                                                                     \
    if (R > r && tile->bias != NULL) a##r = vf_set(tile->bias[r * tile->bias_stride]); \
    vf b##r = a##r, c##r = a##r, d##r = a##r;
#define START_ROW(r)                                           \
    if (R > r) {                                               \
        const float *from = tile->start + r * tile->start_row; \
        a##r += vf_load(from);                                 \
        b##r += vf_load(from + VF);                            \
        if (VECTORS > 2) c##r += vf_load(from + 2 * VF);       \
        if (VECTORS > 2) d##r += vf_load(from + 3 * VF);       \
    }
#define STORE_ROW(r)                                                             \
    if (R > r) {                                                                 \
        float *to = tile->y + r * tile->y_row;                                   \
        vf_store(to, vf_min(high, vf_max(low, a##r)));                           \
        vf_store(to + VF, vf_min(high, vf_max(low, b##r)));                      \
        if (VECTORS > 2) vf_store(to + 2 * VF, vf_min(high, vf_max(low, c##r))); \
        if (VECTORS > 2) vf_store(to + 3 * VF, vf_min(high, vf_max(low, d##r))); \
    }

/* R rows; a constant, so that all of this is straight code. */
VEC_INLINE void tile_run(const planes_tile *tile, const int R) {
    const float *x = tile->x;
    const int64_t x_step = tile->x_step, depth = tile->depth;
    int64_t i = 0;
    EACH_ROW(AIM_ROW)
    EACH_ROW(BIAS_ROW)
    for (; i + 2 <= depth; i += 2) {
        STEP(0) STEP(1)
    }
    if (i < depth) STEP(0)
    if (tile->start != NULL) {
        EACH_ROW(START_ROW)
    }
    const vf low = tile->low, high = tile->high;
    EACH_ROW(STORE_ROW)
}

/* clang-format off */
#define EACH_COUNT(M) M(1) M(2) M(3) M(4) M(5) M(6)
#define DEFINE(count) static void tile_##count(const planes_tile *tile) { tile_run(tile, count); }
EACH_COUNT(DEFINE)
#define NAME(count) [count] = tile_##count,
static void (*const tiles[ROWS + 1])(const planes_tile *tile) = {EACH_COUNT(NAME)};
/* clang-format on */

/* Activations that are not bounds, on `count` positions of each row. */
static void activate(const planes *self, const planes_tile *tile, int64_t rows, int64_t count) {
    for (int64_t r = 0; r < rows; r++)
        vec_activation_run(self->activation, tile->y + r * tile->y_row, count);
}

/* A tile at the end of a plane: its sums go through a buffer. */
static void run_narrow(const planes_tile *tile, int64_t rows, int64_t count) {
    float sums[ROWS * WIDTH] = {0};
    planes_tile here = *tile;
    for (int64_t r = 0; r < rows && tile->start != NULL; r++)
        memcpy(sums + r * WIDTH, tile->start + r * tile->start_row, (size_t)count * sizeof *sums);
    if (tile->start != NULL) here.start = sums, here.start_row = WIDTH;
    here.y = sums, here.y_row = WIDTH;
    tiles[rows](&here);
    for (int64_t r = 0; r < rows; r++)
        memcpy(tile->y + r * tile->y_row, sums + r * WIDTH, (size_t)count * sizeof *sums);
}

/* Few positions at the end of a plane: vectors go along the depth. Columns of x lie side by side
 * for that, with zeros up to a whole vector. */
enum { COLUMN = PART + VF - PART % VF };
static void turn(const planes_tile *tile, int64_t count, float *columns) {
    for (int64_t p = 0; p < count; p++, columns += COLUMN) {
        for (int64_t d = 0; d < tile->depth; d++)
            columns[d] = tile->x[d * tile->x_step + p];
        memset(columns + tile->depth, 0, (size_t)(COLUMN - tile->depth) * sizeof *columns);
    }
}

/* DOTS sums, of as many rows of w as the C columns leave; w and x are their pointers. */
VEC_INLINE void dots(const float *const *w, const float *const *x, int64_t depth, float *to,
                     const int C) {
    vf sums[DOTS];
    int64_t d = 0;
    VEC_UNROLLED for (int i = 0; i < DOTS; i++) sums[i] = vf_set(0.0f);
    for (; d + VF <= depth; d += VF) {
        VEC_UNROLLED for (int i = 0; i < DOTS; i++)
            vf_add_product(&sums[i], vf_load(w[i / C] + d), vf_load(x[i % C] + d));
    }
    VEC_UNROLLED for (int i = 0; i < DOTS && d < depth; i++)
        vf_add_product(&sums[i], vf_load_n(w[i / C] + d, depth - d), vf_load(x[i % C] + d));
    VEC_UNROLLED for (int i = 0; i < DOTS; i++) to[i] = vf_sum(sums[i]);
}

static void dots_1(const float *const *w, const float *const *x, int64_t depth, float *to) {
    dots(w, x, depth, to, 1);
}
static void dots_4(const float *const *w, const float *const *x, int64_t depth, float *to) {
    dots(w, x, depth, to, FEW);
}

static void run_few(const planes_tile *tile, const float *columns, int64_t rows, int64_t count) {
    const int64_t wide = count == 1 ? 1 : FEW, high = DOTS / wide;
    const float *w[DOTS], *x[FEW];
    const vec_parts low = {tile->low}, most = {tile->high};
    float sums[DOTS];
    for (int64_t p = 0; p < wide; p++)
        x[p] = columns + rlx_ref_least(p, count - 1) * COLUMN;
    for (int64_t r = 0; r < rows; r += high) {
        for (int64_t i = 0; i < high; i++)
            w[i] = tile->w + rlx_ref_least(r + i, rows - 1) * tile->w_row;
        (wide == 1 ? dots_1 : dots_4)(w, x, tile->depth, sums);
        for (int64_t i = 0; i < rlx_ref_least(high, rows - r); i++) {
            for (int64_t p = 0; p < count; p++) {
                float sum = sums[i * wide + p];
                if (tile->bias != NULL) sum += tile->bias[(r + i) * tile->bias_stride];
                if (tile->start != NULL) sum += tile->start[(r + i) * tile->start_row + p];
                sum = low.f[0] > sum ? low.f[0] : sum;
                tile->y[(r + i) * tile->y_row + p] = most.f[0] < sum ? most.f[0] : sum;
            }
        }
    }
}

/* items */

/* A panel of positions, a part of the depth. */
typedef struct place {
    int64_t n, group;
    int64_t position, count; /* of the panel, or of several whole ones that lie side by side */
    int64_t first, depth;    /* of the part */
    int64_t tile, tile_end;  /* channels, in tiles */
    const float *x;          /* of the part's first input, at the panel's first position */
    int64_t x_step;
} place;

static int64_t part_of(int64_t whole, int64_t count, int64_t index) {
    return whole / count * index + rlx_ref_least(index, whole % count);
}

static void set_bounds(const planes *self, bool is_last, planes_tile *tile) {
    const rlx_activation *activation = self->activation;
    bool is_clip = is_last && activation->op == RLX_OP_CLIP;
    bool is_relu = is_last && activation->op == RLX_OP_RELU;
    tile->low = vf_set(is_clip ? (float)activation->alpha : is_relu ? 0.0f : -VEC_INFINITY);
    tile->high = vf_set(is_clip ? (float)activation->beta : VEC_INFINITY);
}

/* Tile `t` of the channels; returns how many they are. */
static int64_t aim_tile(const planes *self, const place *at, int64_t t, planes_tile *tile) {
    int64_t row = part_of(self->out, self->tiles, t),
            rows = part_of(self->out, self->tiles, t + 1) - row;
    row += at->group * self->out;
    tile->w = self->w + row * self->w_row + at->group % self->merged * self->depth + at->first;
    tile->y = self->y + at->n * self->y_n + row * self->y_channel + at->position;
    if (at->first != 0) {
        tile->start = tile->y;
        return rows;
    }
    if (self->residual != NULL)
        tile->start =
            self->residual + at->n * self->residual_n + row * self->residual_channel + at->position;
    if (self->bias != NULL) tile->bias = self->bias + row * self->bias_stride;
    return rows;
}

/* One tile of channels for panels that lie side by side. */
static void run_panels(planes_tile *tile, int64_t rows, int64_t count) {
    tiles[rows](tile);
    for (int64_t p = WIDTH; p < count; p += WIDTH) {
        tile->x += WIDTH, tile->y += WIDTH;
        if (tile->start != NULL) tile->start += WIDTH;
        tiles[rows](tile);
    }
    tile->y -= count - WIDTH;
}

/* All channels of the item for one part of the depth. */
static void run_tiles(const planes *self, const place *at) {
    const rlx_op act = self->activation->op;
    bool is_last = at->first + at->depth == self->depth;
    bool is_activated = is_last && act != RLX_OP_NONE && act != RLX_OP_RELU && act != RLX_OP_CLIP;
    float columns[FEW * COLUMN];
    planes_tile tile = {.x = at->x,
                        .x_step = at->x_step,
                        .w_row = self->w_row,
                        .depth = at->depth,
                        .y_row = self->y_channel,
                        .start_row = at->first == 0 ? self->residual_channel : self->y_channel,
                        .bias_stride = self->bias_stride};
    set_bounds(self, is_last, &tile);
    if (at->count <= FEW) turn(&tile, at->count, columns);
    for (int64_t t = at->tile; t < at->tile_end; t++) {
        int64_t rows = aim_tile(self, at, t, &tile);
        tile.x = at->x;
        if (at->count <= FEW) {
            run_few(&tile, columns, rows, at->count);
        } else if (at->count < WIDTH) {
            run_narrow(&tile, rows, at->count);
        } else {
            run_panels(&tile, rows, at->count);
        }
        if (is_activated) activate(self, &tile, rows, at->count);
    }
}

/* Neighbouring positions of one row of outputs. */
typedef struct segment {
    int64_t column, count;       /* in the panel */
    int64_t at[RLX_MAX_SPATIAL]; /* of the first: the input that tap 0 meets */
} segment;

static int64_t segments_of(const planes *self, const place *at, segment *segments) {
    const rlx_window *axes = self->axes;
    int64_t found = 0, position = at->position;
    for (int64_t done = 0; done < at->count; found++) {
        segment *now = &segments[found];
        int64_t rest = position, o[RLX_MAX_SPATIAL];
        for (int i = X; i >= 0; i--) {
            o[i] = rest % axes[i].out;
            rest /= axes[i].out;
            now->at[i] = o[i] * axes[i].stride - axes[i].begin;
        }
        now->column = done;
        now->count = rlx_ref_least(axes[X].out - o[X], at->count - done);
        done += now->count, position += now->count;
    }
    return found;
}

/* Inputs that the positions of a segment meet along a row, zeros where there is padding. May write
 * up to a vector past the segment. `start` is the column that the first one meets. */
static void stage_row(const planes *self, const float *row, int64_t start, int64_t count,
                      float *to) {
    const rlx_window *w = &self->axes[X];
    const int64_t stride = w->stride, step = self->x_strides[X] * stride;
    int64_t first = start < 0 ? (stride == 1 ? -start : divide_up(-start, stride)) : 0;
    int64_t end =
        start >= w->in ? 0 : (stride == 1 ? w->in - start : (w->in - 1 - start) / stride + 1);
    first = rlx_ref_least(first, count), end = rlx_ref_least(end, count);
    for (int64_t i = 0; i < first; i += VF)
        vf_store(to + i, vf_set(0.0f));
    row += start * self->x_strides[X];
    if (step == 1) {
        for (int64_t i = first; i < count; i += VF) {
            int64_t left = end - i;
            vf_store(to + i,
                     left >= VF ? vf_load(row + i) : vf_load_n(row + i, left > 0 ? left : 0));
        }
        return;
    }
    for (int64_t i = first; i < count; i++)
        to[i] = i < end ? row[i * step] : 0.0f;
}

/* The inputs under the panel, [depth][WIDTH], for one part of the depth. */
static void stage(const planes *self, place *at, float *to) {
    const rlx_window *axes = self->axes;
    segment segments[WIDTH];
    int64_t count = segments_of(self, at, segments), tap[RLX_MAX_SPATIAL];
    int64_t rest = at->first % self->taps, channel = at->first / self->taps;
    for (int i = X; i >= 0; i--)
        tap[i] = rest % axes[i].kernel, rest /= axes[i].kernel;
    at->x = to, at->x_step = WIDTH;
    const float *x =
        self->x + at->n * self->x_n + (at->group * self->in + channel) * self->x_channel;
    for (int64_t d = 0; d < at->depth; d++, to += WIDTH) {
        for (int64_t s = 0; s < count; s++) {
            const segment *now = &segments[s];
            int64_t plane = now->at[0] + tap[0] * axes[0].dilation;
            int64_t row = now->at[1] + tap[1] * axes[1].dilation, start = now->at[X];
            start += tap[X] * axes[X].dilation;
            if (plane < 0 || plane >= axes[0].in || row < 0 || row >= axes[1].in)
                start = axes[X].in, plane = row = 0; /* all of it is padding */
            stage_row(self, x + plane * self->x_strides[0] + row * self->x_strides[1], start,
                      now->count, to + now->column);
        }
        int i = X;
        while (i >= 0 && ++tap[i] == axes[i].kernel)
            tap[i--] = 0;
        if (i < 0) x += self->x_channel;
    }
}

/* Inputs that could stay where they are; of a narrow panel they would be read past their end. */
static void aim(const planes *self, place *at, float *to) {
    const float *x = self->x + at->n * self->x_n +
                     (at->group * self->in + at->first) * self->x_channel + at->position;
    at->x = x, at->x_step = self->x_channel;
    if ((at->count >= WIDTH && !self->is_copied) || at->count <= FEW) return;
    const int64_t width = divide_up(at->count, WIDTH) * WIDTH;
    at->x = to, at->x_step = width;
    for (int64_t d = 0; d < at->depth; d++, x += self->x_channel, to += width) {
        for (int64_t i = 0; i < width; i += VF) {
            int64_t left = at->count - i;
            vf_store(to + i, left >= VF ? vf_load(x + i) : vf_load_n(x + i, left > 0 ? left : 0));
        }
    }
}

static void run_panel(const planes *self, place *at, float *workspace) {
    for (int64_t p = 0; p < self->parts; p++) {
        at->first = part_of(self->depth, self->parts, p);
        at->depth = part_of(self->depth, self->parts, p + 1) - at->first;
        if (self->is_staged) {
            stage(self, at, workspace);
        } else {
            aim(self, at, workspace);
        }
        run_tiles(self, at);
    }
}

/* Positions that are done together: a panel, or some whole ones whose inputs stay where they are,
 * so that a tile is aimed at, and its weights fetched, once for all of them. */
static int64_t positions_at(const planes *self, int64_t panel, int64_t last) {
    const int64_t left = self->positions - panel * WIDTH;
    if (self->is_staged || left < WIDTH) return rlx_ref_least(WIDTH, left);
    const int64_t most = self->is_copied ? STRIP_COPIED : STRIP;
    return rlx_ref_least(rlx_ref_least(left / WIDTH, last - panel), most) * WIDTH;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    planes self = planes_of(args);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % self.row_items, rest = item / self.row_items;
        int64_t column = rest % self.column_items;
        rest /= self.column_items;
        place at = {.n = rest / self.groups,
                    .group = rest % self.groups,
                    .tile = part_of(self.tiles, self.row_items, row),
                    .tile_end = part_of(self.tiles, self.row_items, row + 1)};
        int64_t last = part_of(self.panels, self.column_items, column + 1);
        for (int64_t p = part_of(self.panels, self.column_items, column); p < last;) {
            at.position = p * WIDTH;
            at.count = positions_at(&self, p, last);
            run_panel(&self, &at, args->workspace);
            p += divide_up(at.count, WIDTH);
        }
    }
}

static int64_t items(const rlx_kernel_args *args) {
    planes self = planes_of(args);
    if (self.positions == 0 || self.out == 0) return 0;
    return self.batch * self.groups * self.column_items * self.row_items;
}

/* In vectors of multiply-adds; staging counts as two. */
static int64_t item_cost(const rlx_kernel_args *args) {
    planes self = planes_of(args);
    int64_t rows = divide_up(self.out, self.row_items) + (self.is_staged ? 2 : 0);
    int64_t vectors = divide_up(self.panels, self.column_items) * VECTORS;
    return rlx_ref_cost(rlx_ref_cost(vectors, rows), self.depth);
}

/* A part of the depth, and what a vector may write past its end. */
static uint64_t workspace(const rlx_kernel_args *args) {
    planes self = planes_of(args);
    int64_t depth = divide_up(self.depth, self.parts);
    return (uint64_t)(depth * WIDTH * (self.is_copied ? STRIP_COPIED : 1) + VF) * sizeof(float);
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *x = &query->in[0], *w = &query->in[1];
    const rlx_conv_attrs *attrs = query->attrs;
    if (attrs->channel_block != 0 || w->rank < 3 || w->rank > 2 + RLX_MAX_SPATIAL) return false;
    if (x->dtype != RLX_DTYPE_F32 || x->layout != RLX_LAYOUT_PLAIN || x->rank != w->rank) {
        return false;
    }
    /* Rows of weights side by side, taps and channels. */
    if (!vec_is_plane(w, w->rank)) return false;
    int64_t taps = 1;
    for (uint32_t i = 2; i < w->rank; i++)
        taps *= w->dims[i];
    if (w->dims[1] < 1 || taps < 1 || (w->dims[1] != 1 && w->strides[1] != taps)) return false;
    for (uint32_t i = 2; i < 4 && i < query->in_count; i++) {
        if (query->in[i].data != NULL && query->in[i].dtype != RLX_DTYPE_F32) return false;
    }
    if (query->in_count > 3 && !vec_is_plane(&query->in[3], w->rank)) return false;
    return vec_is_plane(&query->out[0], w->rank);
}

const rlx_cpu_override VEC_SYMBOL(conv_planes)[] = {
    {RLX_OP_CONV, 0, takes, {VEC_NAME("conv_planes"), run, items, item_cost, workspace}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
