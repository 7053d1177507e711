/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that move and are not looked at: transposes, slices, splits, concats, tiles, expands and
 * copies, by units of 1, 2, 4 or 8 bytes. A move is an array of dims with strides on both sides,
 * dims merged. What is left is one of four: runs that lie side by side on both sides (memcpy); a
 * plane whose two sides run along different dims (transposed block by block in registers); rows
 * whose every unit is repeated (images that are enlarged); or single units (a loop). Nibbles,
 * blocks and reshapes across holes are left to scalar C. */
#include "backend/cpu/vec/transpose.h"

#include "ir/view.h"
#include "ref/strided.h"

enum {
    PIECE = 1 << 16 /* bytes of a work item, about */,
    NEAR = 1 << 19,   /* bytes of a plane that is in a cache, and so is the result */
    SHORT_RUN = 1024, /* bytes: too short for the processor to see where memory is read */
    RUNS_AHEAD = 6,
    FILL = 4096 /* bytes of one unit again and again that are copied at a time */
};

typedef enum move_kind { MOVE_RUNS, MOVE_PLANES, MOVE_REPEATS, MOVE_UNITS } move_kind;

/* `to` and `from` point to the first unit; strides in bytes. */
typedef struct move {
    uint8_t *to;
    const uint8_t *from;
    int64_t unit; /* bytes */
    uint32_t rank;
    int64_t dims[RLX_WALK_RANK], into[RLX_WALK_RANK], out_of[RLX_WALK_RANK];
    move_kind kind;
    int64_t run;        /* RUNS, UNITS, REPEATS: bytes of one, written */
    int64_t repeats;    /* REPEATS: of each unit */
    int64_t rows, cols; /* PLANES: `to` has its cols side by side, `from` its rows */
    int64_t row_into, col_out_of;
    int64_t outer;                        /* how many runs, planes or rows of units */
    int64_t per_item;                     /* of them; 0: each is cut */
    int64_t cuts;                         /* items that each of them makes */
    int64_t row_tile, col_tile, row_cuts; /* of a plane per item */
    vec_turn how;                         /* of a plane */
    bool streams;
} move;

static void push(move *m, int64_t dim, int64_t into, int64_t out_of) {
    uint32_t last = m->rank - 1;
    if (dim == 1) return;
    if (m->rank > 0 && m->into[last] == dim * into && m->out_of[last] == dim * out_of) {
        m->dims[last] *= dim;
        m->into[last] = into;
        m->out_of[last] = out_of;
        return;
    }
    m->dims[m->rank] = dim;
    m->into[m->rank] = into;
    m->out_of[m->rank++] = out_of;
}

static void drop(move *m, uint32_t dim) {
    m->rank--;
    for (uint32_t i = dim; i < m->rank; i++) {
        m->dims[i] = m->dims[i + 1];
        m->into[i] = m->into[i + 1];
        m->out_of[i] = m->out_of[i + 1];
    }
}

/* A short run of 2, 4 or 8 bytes is a unit of that size. */
static void widen(move *m) {
    uint32_t last = m->rank - 1;
    if (m->rank < 2 || m->into[last] != m->unit || m->out_of[last] != m->unit) return;
    int64_t bytes = m->unit * m->dims[last];
    if (bytes != 2 && bytes != 4 && bytes != 8) return;
    m->unit = bytes;
    m->rank--;
}

/* The dim along which `from` lies side by side; rank: none. */
static uint32_t along_from(const move *m) {
    for (uint32_t i = 0; i + 1 < m->rank; i++) {
        if (m->out_of[i] == m->unit) return i;
    }
    return m->rank;
}

static void cut_by(move *m, int64_t bytes) {
    m->cuts = 1;
    m->per_item = bytes >= PIECE ? 1 : PIECE / (bytes > 0 ? bytes : 1);
}

/* Runs of a vector, as blocks of channels are, are units of that size, along the longer of the last
 * dims. */
static void choose_vectors(move *m) {
    uint32_t last = m->rank - 1;
    if (last > 0 && m->dims[last] < m->dims[last - 1]) {
        const int64_t dim = m->dims[last - 1], into = m->into[last - 1],
                      out_of = m->out_of[last - 1];
        drop(m, last - 1);
        m->dims[last] = dim, m->into[last] = into, m->out_of[last] = out_of;
        m->rank++;
    }
    m->kind = MOVE_UNITS;
    m->unit = m->run;
    m->run = m->dims[last] * m->unit;
    m->rank--;
    cut_by(m, m->run);
}

static void choose_runs(move *m) {
    m->kind = MOVE_RUNS;
    m->run = m->unit;
    if (m->rank > 0 && m->into[m->rank - 1] == m->unit && m->out_of[m->rank - 1] == m->unit)
        m->run = m->unit * m->dims[--m->rank];
    if (m->rank > 0 && !m->streams && (m->run == 16 || m->run == 32 || m->run == 64)) {
        choose_vectors(m);
        return;
    }
    cut_by(m, m->run);
    if (m->run < 2 * PIECE) return;
    m->per_item = 0;
    m->cuts = (m->run - 1) / PIECE + 1;
}

/* `row`: the dim along which `from` lies side by side. */
static void choose_planes(move *m, uint32_t row) {
    uint32_t col = m->rank - 1;
    m->kind = MOVE_PLANES;
    m->rows = m->dims[row];
    m->cols = m->dims[col];
    m->row_into = m->into[row];
    m->col_out_of = m->out_of[col];
    drop(m, col);
    drop(m, row);
    int64_t bytes = m->rows * m->cols * m->unit;
    cut_by(m, bytes);
    m->row_tile = m->rows;
    m->col_tile = m->cols;
    if (bytes < 2 * PIECE) return;
    /* About a tile; more of what there are fewer than it has. */
    int64_t piece = VEC_TURN_PIECE / m->unit;
    m->per_item = 0;
    m->col_tile = rlx_ref_least(m->cols, piece);
    m->row_tile = rlx_ref_divide_up(PIECE / (m->col_tile * m->unit), VEC_TURN_ROWS) * VEC_TURN_ROWS;
    m->row_tile = rlx_ref_least(m->rows, m->row_tile);
    m->col_tile = rlx_ref_divide_up(PIECE / (m->row_tile * m->unit), piece) * piece;
    m->row_cuts = rlx_ref_divide_up(m->rows, m->row_tile);
    m->cuts = rlx_ref_divide_up(m->cols, m->col_tile) * m->row_cuts;
}

/* The unit is the same all along, and what is written lies side by side. */
static bool is_fill(const move *m, uint32_t last) {
    return m->out_of[last] == 0 && m->into[last] == m->unit && m->dims[last] * m->unit >= 64;
}

/* Rows that are read along, every unit of which is written several times. */
static bool is_repeats(const move *m) {
    if (m->rank < 2 || (m->unit != 4 && m->unit != 8)) return false;
    uint32_t last = m->rank - 1, row = m->rank - 2;
    return m->out_of[last] == 0 && m->into[last] == m->unit && m->out_of[row] == m->unit &&
           m->into[row] == m->dims[last] * m->unit;
}

static void choose_repeats(move *m) {
    m->kind = MOVE_REPEATS;
    m->repeats = m->dims[m->rank - 1];
    m->run = m->dims[m->rank - 2] * m->repeats * m->unit;
    m->rank -= 2;
    cut_by(m, m->run);
}

/* Rows of every second unit: there is a loop for them. */
static bool is_seconds(const move *m, uint32_t row) {
    return m->unit == 4 && m->dims[row] == 2 && m->out_of[m->rank - 1] == 8;
}

static void choose(move *m) {
    int64_t bytes = m->unit;
    for (uint32_t i = 0; i < m->rank; i++)
        bytes *= m->dims[i];
    m->streams = bytes >= VEC_STREAM_BYTES;
    m->how = m->streams ? VEC_TURN_STREAMS : bytes > NEAR ? VEC_TURN_FAR : VEC_TURN_NEAR;
    widen(m);
    uint32_t last = m->rank - 1, row = along_from(m);
    bool is_run = m->rank == 0 || (m->into[last] == m->unit && m->out_of[last] == m->unit);
    if (is_run) {
        choose_runs(m);
    } else if (is_repeats(m) && !is_fill(m, last)) {
        choose_repeats(m);
    } else if (row < m->rank && m->into[last] == m->unit && !is_fill(m, last) &&
               !is_seconds(m, row)) {
        choose_planes(m, row);
    } else {
        m->kind = MOVE_UNITS;
        m->run = m->dims[last] * m->unit;
        cut_by(m, m->run * 4);
        m->rank--;
    }
    m->outer = 1;
    for (uint32_t i = 0; i < m->rank; i++)
        m->outer *= m->dims[i];
    if (bytes == 0) m->outer = 0;
}

static int64_t move_items(const move *m) {
    if (m->outer == 0) return 0;
    return m->per_item == 0 ? m->outer * m->cuts : (m->outer - 1) / m->per_item + 1;
}

/* A place among the outer dims. */
typedef struct place {
    uint8_t *to;
    const uint8_t *from;
    int64_t at[RLX_WALK_RANK];
} place;

static place place_of(const move *m, int64_t number) {
    place p = {.to = m->to, .from = m->from};
    for (uint32_t i = m->rank; i-- > 0;) {
        p.at[i] = number % m->dims[i];
        number /= m->dims[i];
        p.to += p.at[i] * m->into[i];
        p.from += p.at[i] * m->out_of[i];
    }
    return p;
}

static void step(const move *m, place *p) {
    for (uint32_t i = m->rank; i-- > 0;) {
        p->to += m->into[i];
        p->from += m->out_of[i];
        if (++p->at[i] < m->dims[i]) return;
        p->to -= m->dims[i] * m->into[i];
        p->from -= m->dims[i] * m->out_of[i];
        p->at[i] = 0;
    }
}

/* A row of units at any distance; memcpy of a constant size is one load and one store. Here and
 * below pointers are copied first: what is written might be the place they stand in. */
#define COPY_UNITS(size)                \
    for (int64_t i = 0; i < count; i++) \
    memcpy(to + i * into, from + i * out_of, (size))

/* One unit over a whole run: what is there already is copied behind itself. */
static void fill_units(const move *m, const place *p) {
    memcpy(p->to, p->from, (size_t)m->unit);
    for (int64_t done = m->unit; done < m->run;) {
        int64_t more = rlx_ref_least(rlx_ref_least(done, FILL), m->run - done);
        memcpy(p->to + done, p->to, (size_t)more);
        done += more;
    }
}

/* Every second of some units of 4 bytes; returns how many are done. What lies behind the last one
 * is not read. */
static int64_t move_seconds(uint8_t *to, const uint8_t *from, int64_t count) {
    int64_t i = 0;
    for (; i + 8 < count; i += 8) {
        vt4 a, b;
        memcpy(&a, from + 8 * i, sizeof a);
        memcpy(&b, from + 8 * i + 32, sizeof b);
        a = VEC_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
        memcpy(to + 4 * i, &a, sizeof a);
    }
    return i;
}

/* Every unit of 4 bytes twice. */
static int64_t repeat_twice(uint8_t *to, const uint8_t *from, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        vt4 a, b;
        memcpy(&a, from + 4 * i, sizeof a);
        b = VEC_SHUFFLE(a, a, 4, 4, 5, 5, 6, 6, 7, 7);
        a = VEC_SHUFFLE(a, a, 0, 0, 1, 1, 2, 2, 3, 3);
        memcpy(to + 8 * i, &a, sizeof a);
        memcpy(to + 8 * i + 32, &b, sizeof b);
    }
    return i;
}

/* `unit` is a constant. */
VEC_INLINE void repeat_units(const move *m, const place *p, int64_t unit, int64_t from) {
    const int64_t repeats = m->repeats, count = m->run / (unit * repeats);
    uint8_t *to = p->to;
    const uint8_t *row = p->from;
    for (int64_t i = from; i < count; i++) {
        for (int64_t k = 0; k < repeats; k++)
            memcpy(to + (i * repeats + k) * unit, row + i * unit, (size_t)unit);
    }
}

static void move_repeats(const move *m, const place *p) {
    if (m->unit == 8) {
        repeat_units(m, p, 8, 0);
    } else {
        repeat_units(m, p, 4, m->repeats == 2 ? repeat_twice(p->to, p->from, m->run / 8) : 0);
    }
}

static void move_units(const move *m, const place *here) {
    int64_t count = m->run / m->unit, into = m->into[m->rank], out_of = m->out_of[m->rank];
    uint8_t *to = here->to;
    const uint8_t *from = here->from;
    if (is_fill(m, m->rank)) {
        fill_units(m, here);
        return;
    }
    if (m->unit == 4 && into == 4 && out_of == 8) {
        int64_t done = move_seconds(to, from, count);
        to += done * into;
        from += done * out_of;
        count -= done;
    }
    switch (m->unit) {
    case 1:
        COPY_UNITS(1);
        break;
    case 2:
        COPY_UNITS(2);
        break;
    case 4:
        COPY_UNITS(4);
        break;
    case 8:
        COPY_UNITS(8);
        break;
    case 16:
        COPY_UNITS(16);
        break;
    case 32:
        COPY_UNITS(32);
        break;
    default:
        COPY_UNITS(64);
        break;
    }
}

static void move_tile(const move *m, const place *p, int64_t cut) {
    int64_t row = m->row_cuts == 0 ? 0 : cut % m->row_cuts * m->row_tile;
    int64_t col = m->row_cuts == 0 ? 0 : cut / m->row_cuts * m->col_tile;
    vec_transpose(m->unit, p->to + row * m->row_into + col * m->unit, m->row_into,
                  p->from + row * m->unit + col * m->col_out_of, m->col_out_of,
                  rlx_ref_least(m->row_tile, m->rows - row),
                  rlx_ref_least(m->col_tile, m->cols - col), m->how);
}

/* Whole vectors past the caches where that is asked for and possible. */
static void copy_run(const move *m, uint8_t *to, const uint8_t *from, int64_t bytes) {
    if (!m->streams || ((uintptr_t)to | (uintptr_t)bytes) % 64 != 0) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    vec_stream_lines(to, from, bytes);
}

/* Asks for the memory of a short run. */
static void ask_for(const move *m, const place *p) {
    for (int64_t at = 0; at < m->run; at += 64)
        __builtin_prefetch(p->from + at);
}

static void move_one(const move *m, const place *p, int64_t cut) {
    int64_t first = cut * PIECE;
    if (m->kind == MOVE_PLANES) {
        move_tile(m, p, cut);
    } else if (m->kind == MOVE_UNITS) {
        move_units(m, p);
    } else if (m->kind == MOVE_REPEATS) {
        move_repeats(m, p);
    } else {
        copy_run(m, p->to + first, p->from + first,
                 m->per_item == 0 ? rlx_ref_least(PIECE, m->run - first) : m->run);
    }
}

static void move_run(const move *m, int64_t begin, int64_t end) {
    if (m->per_item == 0) {
        for (int64_t item = begin; item < end; item++) {
            place p = place_of(m, item / m->cuts);
            move_one(m, &p, item % m->cuts);
        }
    } else {
        int64_t last = rlx_ref_least(end * m->per_item, m->outer);
        place p = place_of(m, begin * m->per_item), ahead = p;
        bool asks = m->kind == MOVE_RUNS && m->streams && m->run <= SHORT_RUN;
        for (int64_t i = 0; asks && i < RUNS_AHEAD; i++)
            step(m, &ahead);
        for (int64_t i = begin * m->per_item; i < last; i++, step(m, &p)) {
            if (asks) ask_for(m, &ahead), step(m, &ahead);
            move_one(m, &p, 0);
        }
    }
    if (m->streams) vec_stream_end();
}

/* All of `dims`: elements of `to` in that order from those of `from`. */
static move move_of(const rlx_tensor *to, int64_t to_offset, const rlx_tensor *from,
                    int64_t from_offset, uint32_t rank, const int64_t *dims, const int64_t *into,
                    const int64_t *out_of) {
    int64_t unit = rlx_dtype_block_bytes(to->dtype);
    move m = {.to = (uint8_t *)to->data + to_offset * unit,
              .from = (const uint8_t *)from->data + from_offset * unit,
              .unit = unit};
    for (uint32_t i = 0; i < rank; i++)
        push(&m, dims[i], into[i] * unit, out_of[i] * unit);
    choose(&m);
    return m;
}

/* Ops that see their input otherwise. False: no strides describe it. */
static bool view_move(const rlx_kernel_args *args, uint32_t output, move *out_move) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[output];
    rlx_tensor seen = *out;
    int64_t offset = 0, plain[RLX_MAX_RANK], next = 1;
    if (args->op == RLX_OP_COPY) {
        memcpy(seen.strides, in->strides, sizeof seen.strides);
    } else if (!rlx_view_map(args->op, args->attrs, output, args->out_count, in, &seen, &offset)) {
        if (!rlx_tensor_is_plain(out)) return false;
        /* The order of the elements is that of the input, and the output has no holes. */
        for (uint32_t i = in->rank; i-- > 0; next *= in->dims[i])
            plain[i] = next;
        *out_move = move_of(out, 0, in, 0, in->rank, in->dims, plain, in->strides);
        return true;
    }
    *out_move = move_of(out, 0, in, offset, out->rank, out->dims, out->strides, seen.strides);
    return true;
}

static move tile_move(const rlx_kernel_args *args) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    int64_t dims[RLX_WALK_RANK], into[RLX_WALK_RANK], out_of[RLX_WALK_RANK];
    for (uint32_t i = 0; i < in->rank; i++) {
        dims[2 * i] = in->dims[i] > 0 ? out->dims[i] / in->dims[i] : 0;
        dims[2 * i + 1] = in->dims[i];
        into[2 * i] = in->dims[i] * out->strides[i];
        into[2 * i + 1] = out->strides[i];
        out_of[2 * i] = 0;
        out_of[2 * i + 1] = in->strides[i];
    }
    return move_of(out, 0, in, 0, 2 * in->rank, dims, into, out_of);
}

static move concat_move(const rlx_kernel_args *args, uint32_t input, int64_t offset) {
    const rlx_tensor *in = &args->in[input], *out = &args->out[0];
    return move_of(out, offset, in, 0, in->rank, in->dims, out->strides, in->strides);
}

/* Move number k of a step; false: there is no such move. `*offset` goes on from one to the next. */
static bool next_move(const rlx_kernel_args *args, uint32_t k, int64_t *offset, move *m) {
    const rlx_axis_attrs *axis_attrs = args->attrs;
    if (args->op == RLX_OP_CONCAT) {
        if (k >= args->in_count) return false;
        uint32_t axis = vec_axis(axis_attrs->axis, args->out[0].rank);
        *m = concat_move(args, k, *offset);
        *offset += args->in[k].dims[axis] * args->out[0].strides[axis];
        return true;
    }
    if (k >= args->out_count) return false;
    if (args->op == RLX_OP_TILE) {
        *m = tile_move(args);
        return true;
    }
    if (!view_move(args, k, m)) return false;
    if (args->out[k].data == NULL) m->outer = 0;
    return true;
}

/* Every dtype whose elements are whole bytes; of a reshape also what strides can describe. */
static bool fits(const rlx_kernel_args *args) {
    const rlx_tensor *in = &args->in[0];
    move m;
    if (rlx_unit_bytes(in->dtype) == 0 || rlx_unit_elements(in->dtype) != 1) return false;
    if (args->op == RLX_OP_CONCAT || args->op == RLX_OP_TILE) return true;
    for (uint32_t k = 0; k < args->out_count; k++) {
        if (!view_move(args, k, &m)) return false;
    }
    return true;
}

/* All moves of a step, found once: a small one takes less time than to find it. */
typedef struct moves {
    bool fits;
    uint32_t count;
    move items[];
} moves;

static uint64_t moves_bytes(const rlx_kernel_args *args) {
    uint32_t most = args->op == RLX_OP_CONCAT ? args->in_count : args->out_count;
    return sizeof(moves) + most * sizeof(move);
}

static void make(const rlx_kernel_args *args, void *memory) {
    moves *self = memory;
    int64_t offset = 0;
    *self = (moves){.fits = fits(args)};
    while (self->fits && next_move(args, self->count, &offset, &self->items[self->count]))
        self->count++;
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const moves *all = args->prepared;
    int64_t offset = 0;
    move m;
    if (all == NULL ? !fits(args) : !all->fits) {
        vec_scalar_run(args, begin, end);
        return;
    }
    for (uint32_t k = 0; begin < end; k++) {
        if (all == NULL ? !next_move(args, k, &offset, &m) : k >= all->count) return;
        const move *now = all == NULL ? &m : &all->items[k];
        int64_t items = move_items(now);
        if (begin < items) move_run(now, begin, rlx_ref_least(end, items));
        begin = begin < items ? 0 : begin - items;
        end -= items;
    }
}

static int64_t items(const rlx_kernel_args *args) {
    int64_t offset = 0, count = 0;
    move m;
    if (!fits(args)) return vec_scalar_items(args);
    for (uint32_t k = 0; next_move(args, k, &offset, &m); k++)
        count += move_items(&m);
    return count;
}

static bool takes(const rlx_target_query *query) {
    rlx_kernel_args args = vec_args_of(query);
    return fits(&args);
}

#define ROW(upper, lower) {RLX_OP_##upper, 0, takes, {VEC_NAME(#lower), run, items, NULL, NULL}},
/* clang-format off */
const rlx_cpu_override VEC_SYMBOL(move)[] = {
    ROW(TRANSPOSE, transpose)
    ROW(RESHAPE, reshape)
    ROW(SQUEEZE, squeeze)
    ROW(UNSQUEEZE, unsqueeze)
    ROW(FLATTEN, flatten)
    ROW(EXPAND, expand)
    ROW(SLICE, slice)
    ROW(SPLIT, split)
    ROW(CONCAT, concat)
    ROW(TILE, tile)
    ROW(COPY, copy)
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
/* clang-format on */
const rlx_cpu_preparation VEC_SYMBOL(move_preparation) = {
    .run = run, .bytes = moves_bytes, .make = make};
