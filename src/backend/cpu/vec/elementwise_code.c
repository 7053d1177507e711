/* SPDX-License-Identifier: Apache-2.0 */
/* Chains whose cells are all f32, as links that hand eight vectors to each other in registers: no
 * tile is written and read again between two ops. It stands beside the tiles of elementwise.c,
 * which do everything else, and gives the same bits: the links of an op are the same in both. */
#include "backend/cpu/vec/elementwise.h"

static bool is_half(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}
static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I8 || dtype == RLX_DTYPE_U8;
}

static void add(vec_program *self, vec_link_run run, uint16_t slot, const vec_step *step) {
    uint32_t i = self->link_count++;
    self->slots[i] = slot;
    self->links[i] = (vec_link){.run = run};
    if (step == NULL) return;
    self->links[i].alpha = step->alpha;
    self->links[i].beta = step->beta;
}

/* Whether a result is only cast to floats. */
static bool is_only_cast(const vec_program *self, uint32_t index) {
    uint16_t slot = self->steps[index].out;
    for (uint32_t j = index + 1; j < self->step_count; j++) {
        const vec_step *step = &self->steps[j];
        bool is_float = step->dtype == RLX_DTYPE_F32 || is_half(step->dtype);
        for (uint32_t k = 0; k < step->in_count; k++) {
            if (step->in[k] == slot && (step->op != RLX_OP_CAST || !is_float)) return false;
        }
        if (step->out == slot) break;
    }
    return true;
}

/* Whether links can do a step. Bytes are only cast to and from: between two casts they are whole
 * numbers of f32. */
static bool is_possible(const vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    bool is_last = index + 1 == self->step_count, is_cast = step->op == RLX_OP_CAST;
    rlx_dtype type = step->dtype;
    bool is_cast_byte = is_cast && is_byte(type) && (is_last || is_only_cast(self, index));
    if (type != RLX_DTYPE_F32 && !is_half(type) && !is_cast_byte) return false;
    for (uint32_t k = 0; k < step->in_count; k++) {
        bool is_read_byte = is_cast && is_byte(step->operands[k]) && !is_byte(type);
        if (vec_cell_of(step->operands[k]) != RLX_DTYPE_F32 && !is_read_byte) return false;
    }
    if (is_cast || step->op == RLX_OP_IDENTITY) return true;
    return step->in_count == 1 ? vec_link_of_unary(step) != NULL
                               : vec_link_of_binary(step->op, false) != NULL;
}

/* Which operand of a step is the value that the step before left: 0, 1, or -1 for none. */
static int value_operand(const vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    if (index == 0) return -1;
    uint16_t value = self->steps[index - 1].out;
    if (step->in[0] == value) return 0;
    bool is_second = step->in_count == 2 && step->in[1] == value;
    return is_second && vec_link_of_binary(step->op, true) != NULL ? 1 : -1;
}

/* Whether somebody reads the result from memory, before its register is given to another. */
static bool is_kept(const vec_program *self, uint32_t index) {
    uint16_t slot = self->steps[index].out;
    for (uint32_t j = index + 1; j < self->step_count; j++) {
        const vec_step *step = &self->steps[j];
        int value = j == index + 1 ? value_operand(self, j) : -1;
        for (uint32_t k = 0; k < step->in_count; k++) {
            if (step->in[k] == slot && (int)k != value) return true;
        }
        if (step->out == slot) return false;
    }
    return false;
}

/* Which operand of a step of two is memory. */
static uint32_t memory_operand(const vec_program *self, uint32_t index) {
    return value_operand(self, index) == 1 ? 0 : 1;
}

/* The link of a step of two that reads its memory, an input of 16 bits, where it is; NULL: there is
 * none. */
static vec_link_run half_link(const vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    uint32_t memory = memory_operand(self, index);
    if (step->in[memory] >= VEC_INPUTS) return NULL;
    return vec_link_of_half(step->op, memory == 0, self->inputs[step->in[memory]].at_link);
}

/* Other inputs of 16 bits that are not simply loaded become blocks of f32 first. */
static void widen_inputs(vec_program *self) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        rlx_dtype dtype = self->inputs[i].at_link;
        bool is_memory = false;
        for (uint32_t s = 0; s < self->step_count; s++) {
            const vec_step *step = &self->steps[s];
            is_memory |= step->in_count == 2 && step->in[memory_operand(self, s)] == i &&
                         half_link(self, s) == NULL;
        }
        if (!is_memory || !is_half(dtype)) continue;
        add(self, vec_link_of_widen(dtype), (uint16_t)i, NULL);
        add(self, NULL, (uint16_t)(VEC_SLOT_WIDE + i), NULL);
    }
}

static uint16_t memory_slot(const vec_program *self, uint16_t slot) {
    bool is_wide = slot < VEC_INPUTS && is_half(self->inputs[slot].at_link);
    return (uint16_t)(is_wide ? VEC_SLOT_WIDE + slot : slot);
}

static void add_binary(vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    vec_link_run half = half_link(self, index);
    uint32_t memory = memory_operand(self, index);
    uint16_t slot = step->in[memory];
    if (half != NULL) {
        add(self, half, slot, step);
    } else if (slot < VEC_INPUTS && self->inputs[slot].is_spread) {
        add(self, vec_link_of_number(step->op, memory == 0), slot, step);
    } else {
        add(self, vec_link_of_binary(step->op, memory == 0), memory_slot(self, slot), step);
    }
}

static void add_load(vec_program *self, uint16_t slot) {
    rlx_dtype dtype = slot < VEC_INPUTS ? self->inputs[slot].at_link : RLX_DTYPE_F32;
    add(self, vec_link_of_load(dtype), slot, NULL);
}

static void add_step(vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    int value = value_operand(self, index);
    if (value < 0) add_load(self, step->in[0]);
    if (step->in_count == 2) {
        add_binary(self, index);
    } else if (step->op != RLX_OP_CAST && step->op != RLX_OP_IDENTITY) {
        add(self, vec_link_of_unary(step), VEC_SLOT_NONE, step);
    }
    if (index + 1 == self->step_count) return;
    if (step->dtype != RLX_DTYPE_F32)
        add(self, vec_link_of_round(step->dtype), VEC_SLOT_NONE, NULL);
    if (is_kept(self, index)) add(self, vec_link_of_keep(), step->out, NULL);
}

/* Whether an input is read once and was in no near cache before, or will not stay in one. */
static bool is_fetched(const vec_program *self, const vec_operand *x) {
    bool is_large = VF >= 16 && self->elements >= VEC_FETCHED / 4;
    return (self->is_past_caches || is_large) && x->is_flat && x->bytes != 0 && x->bytes <= 4;
}

/* Which links ask for which lines: in pieces, spread over the steps. All at once they wait for each
 * other and for the stores, and then nobody asks for anything while the steps compute. */
static uint32_t fetch_slots(const vec_program *self, uint16_t *slots) {
    uint32_t count = 0;
    for (uint32_t i = 0; VF >= 16 && i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (count + 2 > VEC_FETCHES || !is_fetched(self, x)) continue;
        slots[count++] = (uint16_t)(VEC_SLOT_FETCH + i);
        if (VEC_BLOCK * x->bytes > 256) slots[count++] = (uint16_t)(VEC_SLOT_FETCH_MORE + i);
    }
    return count;
}
static void add_fetch(vec_program *self, uint16_t slot) {
    const vec_operand *x = &self->inputs[(slot - VEC_SLOT_FETCH) % VEC_INPUTS];
    add(self, vec_link_of_fetch(x->bytes), slot, NULL);
}

bool vec_make_code(vec_program *self) {
    uint16_t fetches[VEC_FETCHES];
    uint32_t fetch_count = fetch_slots(self, fetches), fetched = 0;
    self->link_count = 0;
    if (vec_links_most(self->step_count, self->input_count) == 0) return false;
    for (uint32_t s = 0; s < self->step_count; s++) {
        if (!is_possible(self, s)) return false;
    }
    vec_link_run store = vec_link_of_store(self->output.at_link, false);
    if (store == NULL) return false;
    widen_inputs(self);
    for (uint32_t s = 0; s < self->step_count; s++) {
        for (; fetched * self->step_count < (s + 1) * fetch_count; fetched++)
            add_fetch(self, fetches[fetched]);
        add_step(self, s);
    }
    RLX_ASSERT(fetched == fetch_count);
    add(self, store, VEC_SLOT_OUT, NULL);
    return true;
}

bool vec_reads_in_place(const vec_program *self) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!x->is_spread && !x->is_along) return false;
    }
    return self->writes_output;
}

/* Links read elements of up to 4 bytes: a wider input of a chain is one that no step uses, and
 * there is no room for it. */
static bool is_read(const vec_operand *x) {
    return x->link_bytes <= 4;
}

/* Gives every link its memory. */
static void point_links(const vec_frame *frame, char *const *inputs, char *out) {
    const vec_program *self = frame->program;
    for (uint32_t i = 0; i < self->link_count; i++) {
        vec_link *link = &frame->links[i];
        uint16_t slot = self->slots[i];
        if (slot == VEC_SLOT_NONE) continue;
        if (slot < VEC_INPUTS) {
            link->memory = inputs[slot];
            link->step = self->inputs[slot].is_spread ? 0 : self->inputs[slot].link_bytes;
        } else if (slot == VEC_SLOT_OUT) {
            link->memory = out;
            link->step = self->output.link_bytes;
        } else if (slot >= VEC_SLOT_FETCH) {
            link->memory = inputs[(slot - VEC_SLOT_FETCH) % VEC_INPUTS] + frame->ahead;
            if (slot >= VEC_SLOT_FETCH_MORE) link->memory += 256;
        } else if (slot >= VEC_SLOT_WIDE) {
            link->memory = frame->memory + self->inputs[slot - VEC_SLOT_WIDE].cells_at;
        } else {
            link->memory = frame->memory + (slot - VEC_INPUTS) * self->register_bytes;
        }
    }
}

/* The first link loads: it gets whatever is in the registers. */
VEC_INLINE void start(const vec_link *first, int64_t at) {
#if defined(__AVX2__) && (RLX_VEC_BYTES == 32 || defined(__AVX512F__))
    vf a, b, c, d, e, f, g, h;
    __asm__("" : "=x"(a), "=x"(b), "=x"(c), "=x"(d), "=x"(e), "=x"(f), "=x"(g), "=x"(h));
    first->run(first, at, a, b, c, d, e, f, g, h);
#else
    vf zero = {0};
    first->run(first, at, zero, zero, zero, zero, zero, zero, zero, zero);
#endif
}

/* A block from fewer bytes than one; zeros behind them. By vectors, so that vectors can be read
 * right away. */
static void fill_block(char *block, const char *from, int64_t bytes) {
    float *to = (float *)(void *)block;
    if (bytes % 4 != 0) {
        memset(block, 0, VEC_BLOCK * 4);
        memcpy(block, from, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < VEC_BLOCK; i += VF) {
        int64_t left = bytes / 4 - i;
        vf x = {0};
        if (left > 0) x = vf_load_n((const float *)(const void *)from + i, left < VF ? left : VF);
        vf_store(to + i, x);
    }
}

static void take_block(char *to, const char *block, int64_t bytes) {
    const float *from = (const float *)(const void *)block;
    if (bytes % 4 != 0) {
        memcpy(to, block, (size_t)bytes);
        return;
    }
    for (int64_t i = 0, left = bytes / 4; left > 0; i += VF, left -= VF)
        vf_store_n((float *)(void *)to + i, vf_load(from + i), left < VF ? left : VF);
}

/* Fewer elements than a block: in blocks of their own. */
static void run_rest(const vec_frame *frame, char *const *inputs, char *out, int64_t count) {
    const vec_program *self = frame->program;
    _Alignas(64) char room[VEC_INPUTS + 1][VEC_BLOCK * 4];
    char *places[VEC_INPUTS];
    vec_link *last = frame->links + self->link_count - 1;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        places[i] = inputs[i];
        if (x->is_spread || !is_read(x)) continue;
        places[i] = room[i];
        fill_block(room[i], inputs[i], count * x->link_bytes);
    }
    point_links(frame, places, room[VEC_INPUTS]);
    last->run = self->links[self->link_count - 1].run;
    start(frame->links, 0);
    take_block(out, room[VEC_INPUTS], count * self->output.link_bytes);
}

/* Inputs that are asked for before a block, where no links do it. */
typedef struct ahead {
    uint32_t count;
    const char *from[4];
    int64_t bytes[4];
} ahead;

static ahead inputs_ahead(const vec_program *self, char *const *inputs) {
    ahead list = {.count = 0};
    for (uint32_t i = 0; VF < 16 && i < self->input_count && list.count < 4; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!is_fetched(self, x)) continue;
        list.from[list.count] = inputs[i] + VEC_AHEAD;
        list.bytes[list.count++] = x->bytes;
    }
    return list;
}

/* A block of bytes: without a loop, whose instructions would take the place of others that could
 * run ahead. */
VEC_INLINE void ask_for(const char *line, int64_t bytes) {
    VEC_UNROLLED for (int64_t byte = 0; byte < VEC_BLOCK; byte += 64)
        __builtin_prefetch(line + byte, 0, 3);
    if (bytes == 1) return;
    VEC_UNROLLED for (int64_t byte = VEC_BLOCK; byte < 2 * VEC_BLOCK; byte += 64)
        __builtin_prefetch(line + byte, 0, 3);
    if (bytes == 2) return;
    VEC_UNROLLED for (int64_t byte = 2 * VEC_BLOCK; byte < 4 * VEC_BLOCK; byte += 64)
        __builtin_prefetch(line + byte, 0, 3);
}

static void run_blocks(const vec_frame *frame, char *const *inputs, char *out, int64_t count) {
    ahead list = inputs_ahead(frame->program, inputs);
    point_links(frame, inputs, out);
    for (int64_t at = 0; at < count; at += VEC_BLOCK) {
        for (uint32_t i = 0; i < list.count; i++)
            ask_for(list.from[i] + at * list.bytes[i], list.bytes[i]);
        start(frame->links, at);
    }
}

/* One number to every lane of a block, whose cells have 1 or 4 bytes: in a register, since what was
 * stored in pieces cannot be read back as vectors right away. Rows begin with this. */
static void spread(const vec_program *self, const vec_operand *x, const int64_t *at, char *cells) {
    float number;
    if (x->link_bytes != sizeof number) {
        vec_load_cells(&self->sweep, x, at, 1, cells);
        memset(cells, cells[0], VEC_BLOCK);
        return;
    }
    if (x->has_cells) {
        int64_t offset = 0;
        for (uint32_t d = 0; d < self->sweep.rank; d++)
            offset += at[d] * x->strides[d];
        memcpy(&number, (const char *)x->tensor->data + offset * 4, sizeof number);
    } else {
        vec_load_cells(&self->sweep, x, at, 1, &number);
    }
    vf all = vf_set(number);
    for (int i = 0; i < 8; i++)
        vf_store((float *)(void *)cells + i * VF, all);
}

static char *find_input(const vec_frame *frame, const vec_operand *x, int64_t index,
                        const int64_t *at, int64_t count) {
    const vec_sweep *sweep = &frame->program->sweep;
    char *cells = frame->memory + x->cells_at;
    int64_t offset = x->is_flat ? index : 0;
    if (!is_read(x)) return frame->memory;
    if (x->is_spread) {
        spread(frame->program, x, at, cells);
        return cells;
    }
    if (x->is_turned && frame->turned_at >= 0) return cells + frame->turned_at * x->link_bytes;
    if (!x->is_along) {
        vec_load_cells(sweep, x, at, count, cells);
        return cells;
    }
    for (uint32_t d = 0; !x->is_flat && d < sweep->rank; d++)
        offset += at[d] * x->strides[d];
    return (char *)x->tensor->data + offset * x->bytes;
}

static void move_on(const vec_program *self, char **inputs, char **out, int64_t count) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!x->is_spread) inputs[i] += count * x->link_bytes;
    }
    *out += count * self->output.link_bytes;
}

/* How the inputs of some rows lie to the output: apart; element by element where it is; or so that
 * what is written may be another element's input. */
typedef enum overlap { APART, IN_PLACE, ACROSS } overlap;

static overlap overlap_of(const vec_program *self, char *const *inputs, const char *out,
                          int64_t count, int64_t rows) {
    const vec_operand *y = &self->output;
    int64_t row_bytes = count * y->link_bytes, pitch = row_bytes;
    if (rows > 1) pitch = self->sweep.dims[self->sweep.rank - 1] * y->link_bytes;
    overlap worst = APART;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        int64_t stride = rows > 1 ? x->strides[self->sweep.rank - 2] * x->link_bytes : pitch;
        int64_t way = (rows - 1) * stride;
        if (x->is_spread || !is_read(x)) continue;
        const char *low = inputs[i] + (way < 0 ? way : 0), *high = inputs[i] + (way > 0 ? way : 0);
        if (low >= out + (rows - 1) * pitch + row_bytes || out >= high + count * x->link_bytes)
            continue;
        bool is_same = inputs[i] == out && x->link_bytes == y->link_bytes && stride == pitch;
        if (!is_same) return ACROSS;
        worst = IN_PLACE;
    }
    return worst;
}

/* A span of at least a block, the links pointed at it. What whole blocks leave is done in a block
 * that ends with it: filling one with the rest alone takes longer than all of a short row. In place
 * it is done first and goes to a place of its own, since later its input is gone. */
static void run_span(const vec_frame *frame, char *out, int64_t count, overlap where) {
    _Alignas(64) char room[(VEC_BLOCK + VF) * 4]; /* its end is read by whole vectors */
    int64_t rest = count % VEC_BLOCK, bytes = frame->program->output.link_bytes;
    vec_link *last = frame->links + frame->program->link_count - 1;
    bool is_saved = rest > 0 && where != APART;
    if (is_saved) {
        last->memory = room, last->step = 0;
        start(frame->links, count - VEC_BLOCK);
        last->memory = out, last->step = bytes;
    }
    for (int64_t at = 0; at + VEC_BLOCK <= count; at += VEC_BLOCK)
        start(frame->links, at);
    if (is_saved) {
        take_block(out + (count - rest) * bytes, room + (VEC_BLOCK - rest) * bytes, rest * bytes);
    } else if (rest > 0) {
        start(frame->links, count - VEC_BLOCK);
    }
}

void vec_run_code(const vec_frame *frame, int64_t index, const int64_t *at, int64_t count) {
    const vec_program *self = frame->program;
    const vec_operand *y = &self->output;
    char *inputs[VEC_INPUTS], *out = frame->memory + self->result_at;
    for (uint32_t i = 0; i < self->input_count; i++)
        inputs[i] = find_input(frame, &self->inputs[i], index, at, count);
    if (self->writes_output) out = (char *)y->tensor->data + index * y->bytes;
    if (self->is_past_caches) {
        /* Whole blocks begin where streaming stores may. */
        int64_t head = -index & (VEC_BLOCK - 1);
        if (head > count) head = count;
        if (head > 0) {
            run_rest(frame, inputs, out, head);
            move_on(self, inputs, &out, head);
            count -= head;
        }
        frame->links[self->link_count - 1].run = vec_link_of_store(y->tensor->dtype, true);
    }
    int64_t whole = count / VEC_BLOCK * VEC_BLOCK;
    overlap where = overlap_of(self, inputs, out, count, 1);
    if (whole > 0 && !self->is_past_caches && where != ACROSS) {
        point_links(frame, inputs, out);
        run_span(frame, out, count, where);
        return;
    }
    if (whole > 0) run_blocks(frame, inputs, out, whole);
    if (whole == count) return;
    move_on(self, inputs, &out, whole);
    run_rest(frame, inputs, out, count - whole);
}

/* Points the links at the next row, of which `count` elements are done: only what moves. */
static void next_row(const vec_frame *frame, const int64_t *at, int64_t count) {
    const vec_program *self = frame->program;
    uint32_t last = self->sweep.rank - 1;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (x->is_spread && !x->is_number && is_read(x))
            spread(self, x, at, frame->memory + x->cells_at);
    }
    for (uint32_t i = 0; i < self->link_count; i++) {
        uint16_t slot = self->slots[i];
        if (slot == VEC_SLOT_OUT) {
            frame->links[i].memory += self->sweep.dims[last] * self->output.link_bytes;
        } else if (slot >= VEC_SLOT_FETCH && slot < VEC_SLOT_OUT) {
            const vec_operand *x = &self->inputs[(slot - VEC_SLOT_FETCH) % VEC_INPUTS];
            frame->links[i].memory += x->strides[last - 1] * x->bytes;
        } else if (slot < VEC_INPUTS && !self->inputs[slot].is_spread) {
            const vec_operand *x = &self->inputs[slot];
            frame->links[i].memory += (x->is_turned ? count : x->strides[last - 1]) * x->link_bytes;
        }
    }
}

bool vec_run_rows(const vec_frame *frame, int64_t index, const int64_t *at, int64_t rows,
                  int64_t count) {
    const vec_program *self = frame->program;
    const vec_operand *y = &self->output;
    char *inputs[VEC_INPUTS], *out = (char *)y->tensor->data + index * y->bytes;
    int64_t here[RLX_MAX_RANK], row = self->sweep.dims[self->sweep.rank - 1];
    memcpy(here, at, self->sweep.rank * sizeof *at);
    for (uint32_t i = 0; i < self->input_count; i++)
        inputs[i] = find_input(frame, &self->inputs[i], index, at, count);
    overlap where = overlap_of(self, inputs, out, count, rows);
    if (where == ACROSS) return false;
    point_links(frame, inputs, out);
    for (int64_t done = 0; done < rows; out += row * y->bytes) {
        run_span(frame, out, count, where);
        here[self->sweep.rank - 2]++;
        if (++done < rows) next_row(frame, here, count);
    }
    return true;
}

/* Points the links of a frame at a span. */
static void point_span(const vec_frame *frame, int64_t index) {
    const vec_program *self = frame->program;
    const vec_operand *y = &self->output;
    int64_t at[RLX_MAX_RANK];
    char *inputs[VEC_INPUTS];
    vec_seek(&self->sweep, index, at);
    for (uint32_t i = 0; i < self->input_count; i++)
        inputs[i] = find_input(frame, &self->inputs[i], index, at, self->abreast);
    point_links(frame, inputs, (char *)y->tensor->data + index * y->bytes);
    frame->links[self->link_count - 1].run = vec_link_of_store(y->tensor->dtype, true);
}

/* Parts are often a multiple of a page apart. Each begins a little later than the one before it,
 * with what it left out as its end: else its loads would have the last twelve bits of the stores
 * just done and wait for them. */
void vec_run_abreast(const vec_frame *frames, int64_t index, int64_t length) {
    if (VF < 16) return; /* never called */
    int64_t span = frames->program->abreast, blocks = length / VEC_BLOCK;
    int64_t later = (blocks < 2 * VEC_ABREAST ? blocks / VEC_ABREAST : 2) * VEC_BLOCK;
    int64_t spans[VEC_ABREAST], at[VEC_ABREAST]; /* of a part, and where in it */
    for (int k = 0; k < VEC_ABREAST; k++) {
        at[k] = k * later % span;
        spans[k] = k * later - at[k];
        point_span(&frames[k], index + k * length + spans[k]);
    }
    for (; blocks > 0; blocks--) {
        /* A call for each part: one for all is predicted worse, 9 % of an add. */
        VEC_UNROLLED for (int k = 0; k < VEC_ABREAST; k++) {
            if (at[k] == span) {
                at[k] = 0, spans[k] += span;
                if (spans[k] == length) spans[k] = 0;
                point_span(&frames[k], index + k * length + spans[k]);
            }
            start(frames[k].links, at[k]);
            at[k] += VEC_BLOCK;
        }
    }
}
