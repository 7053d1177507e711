/* SPDX-License-Identifier: Apache-2.0 */
/* Chains whose cells are all f32, as links that hand eight vectors to each other in registers: no
 * tile is written and read again between two ops. It stands beside the tiles of elementwise.c,
 * which do everything else, and gives the same bits: the links of an op are the same in both. */
#include "backend/cpu/vec/elementwise.h"

enum { AHEAD = 2048 /* bytes that inputs are asked for ahead of their use */ };

static bool is_half(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}
static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I8 || dtype == RLX_DTYPE_U8;
}

/* How an input is read: where it is, as one number for all of a span, or from a tile. */
static bool is_side_by_side(const vec_program *self, const vec_operand *x) {
    if (x->bytes == 0) return false;
    return x->is_flat || (self->keeps_rows && x->strides[self->sweep.rank - 1] == 1);
}
static bool is_spread(const vec_program *self, const vec_operand *x) {
    return x->is_number || (self->keeps_rows && x->strides[self->sweep.rank - 1] == 0);
}

/* What lies at the input's place: its own dtype, or cells. */
static rlx_dtype memory_dtype(const vec_program *self, const vec_operand *x) {
    bool is_own = is_side_by_side(self, x) && !is_spread(self, x);
    return is_own ? x->tensor->dtype : x->cell;
}

static void add(vec_code *code, vec_link_run run, uint16_t slot, const vec_step *step) {
    uint32_t i = code->count++;
    code->slots[i] = slot;
    code->links[i] = (vec_link){.run = run, .mask = -1};
    if (step == NULL) return;
    code->links[i].alpha = step->alpha;
    code->links[i].beta = step->beta;
}

/* Whether links can do a step. Bytes are only cast from and, at the end, to. */
static bool is_possible(const vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    bool is_last = index + 1 == self->step_count, is_cast = step->op == RLX_OP_CAST;
    rlx_dtype type = step->dtype;
    if (type != RLX_DTYPE_F32 && !is_half(type) && !(is_last && is_cast && is_byte(type)))
        return false;
    for (uint32_t k = 0; k < step->in_count; k++) {
        bool is_read_byte = is_cast && is_byte(step->operands[k]) && !is_byte(type);
        is_read_byte &= step->in[k] < VEC_INPUTS;
        if (vec_cell_of(step->operands[k]) != RLX_DTYPE_F32 && !is_read_byte) return false;
    }
    if (is_cast || step->op == RLX_OP_IDENTITY) return true;
    return step->in_count == 1 ? vec_link_of_unary(step->op) != NULL
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

/* Inputs of 16 bits that are not simply loaded become blocks of f32 first. */
static void widen_inputs(vec_program *self) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        rlx_dtype dtype = memory_dtype(self, &self->inputs[i]);
        bool is_memory = false;
        for (uint32_t s = 0; s < self->step_count; s++) {
            const vec_step *step = &self->steps[s];
            int value = value_operand(self, s);
            is_memory |= step->in_count == 2 && value != 1 && step->in[1] == i;
            is_memory |= step->in_count == 2 && value == 1 && step->in[0] == i;
        }
        if (!is_memory || !is_half(dtype)) continue;
        add(&self->code, vec_link_of_widen(dtype), (uint16_t)i, NULL);
        add(&self->code, NULL, (uint16_t)(VEC_SLOT_WIDE + i), NULL);
    }
}

static uint16_t memory_slot(const vec_program *self, uint16_t slot) {
    bool is_wide = slot < VEC_INPUTS && is_half(memory_dtype(self, &self->inputs[slot]));
    return (uint16_t)(is_wide ? VEC_SLOT_WIDE + slot : slot);
}

static void add_load(vec_program *self, uint16_t slot) {
    rlx_dtype dtype = slot < VEC_INPUTS ? memory_dtype(self, &self->inputs[slot]) : RLX_DTYPE_F32;
    add(&self->code, vec_link_of_load(dtype), slot, NULL);
}

static void add_step(vec_program *self, uint32_t index) {
    const vec_step *step = &self->steps[index];
    vec_code *code = &self->code;
    int value = value_operand(self, index);
    if (value < 0) add_load(self, step->in[0]);
    if (step->in_count == 2) {
        uint16_t slot = memory_slot(self, step->in[value == 1 ? 0 : 1]);
        add(code, vec_link_of_binary(step->op, value == 1), slot, step);
    } else if (step->op != RLX_OP_CAST && step->op != RLX_OP_IDENTITY) {
        add(code, vec_link_of_unary(step->op), VEC_SLOT_NONE, step);
    }
    if (index + 1 == self->step_count) return;
    if (is_half(step->dtype)) add(code, vec_link_of_round(step->dtype), VEC_SLOT_NONE, NULL);
    if (is_kept(self, index)) add(code, vec_link_of_keep(), step->out, NULL);
}

bool vec_make_code(vec_program *self) {
    enum { MOST_STEPS = (VEC_LINKS - 1 - 2 * VEC_INPUTS) / 4 };
    if (self->step_count > MOST_STEPS) return false;
    for (uint32_t s = 0; s < self->step_count; s++) {
        if (!is_possible(self, s)) return false;
    }
    rlx_dtype stored = vec_writes_output(self) ? self->output.tensor->dtype : self->output.cell;
    if (vec_link_of_store(stored, false) == NULL) return false;
    self->code.count = 0;
    widen_inputs(self);
    for (uint32_t s = 0; s < self->step_count; s++)
        add_step(self, s);
    add(&self->code, vec_link_of_store(stored, false), VEC_SLOT_OUT, NULL);
    return true;
}

bool vec_reads_in_place(const vec_program *self) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!is_spread(self, x) && !is_side_by_side(self, x)) return false;
    }
    return vec_writes_output(self);
}

/* Gives every link its memory. */
static void point_links(vec_program *self, char *const *inputs, char *out) {
    vec_code *code = &self->code;
    for (uint32_t i = 0; i < code->count; i++) {
        vec_link *link = &code->links[i];
        uint16_t slot = code->slots[i];
        if (slot < VEC_INPUTS) {
            link->memory = inputs[slot];
            link->mask = is_spread(self, &self->inputs[slot]) ? 0 : -1;
        } else if (slot == VEC_SLOT_OUT) {
            link->memory = out;
        } else if (slot >= VEC_SLOT_WIDE && slot != VEC_SLOT_NONE) {
            link->memory = self->inputs[slot - VEC_SLOT_WIDE].cells;
            link->mask = 0;
        } else if (slot != VEC_SLOT_NONE) {
            link->memory = self->registers + (slot - VEC_INPUTS) * self->tile_bytes;
            link->mask = 0;
        }
    }
}

static int64_t memory_bytes(const vec_program *self, const vec_operand *x) {
    return rlx_dtype_block_bytes(memory_dtype(self, x));
}

/* Fewer elements than a block: in blocks of their own. */
static void run_rest(vec_program *self, char *const *inputs, char *out, int64_t count) {
    _Alignas(64) char room[VEC_INPUTS + 1][VEC_BLOCK * 4];
    char *places[VEC_INPUTS];
    bool writes = vec_writes_output(self);
    rlx_dtype stored = writes ? self->output.tensor->dtype : self->output.cell;
    vec_link *first = self->code.links, *last = first + self->code.count - 1;
    vec_link_run store = last->run;
    vf zero = {0};
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        places[i] = inputs[i];
        if (is_spread(self, x)) continue;
        places[i] = room[i];
        memset(room[i], 0, sizeof room[i]);
        memcpy(room[i], inputs[i], (size_t)(count * memory_bytes(self, x)));
    }
    point_links(self, places, room[VEC_INPUTS]);
    last->run = vec_link_of_store(stored, false);
    first->run(first, 0, zero, zero, zero, zero, zero, zero, zero, zero);
    last->run = store;
    memcpy(out, room[VEC_INPUTS], (size_t)(count * rlx_dtype_block_bytes(stored)));
}

/* What is read once and will not stay in a cache is asked for ahead. */
typedef struct ahead {
    uint32_t count;
    const char *from[4];
    int64_t bytes[4];
} ahead;

static ahead inputs_ahead(const vec_program *self, char *const *inputs) {
    ahead list = {0};
    for (uint32_t i = 0; i < self->input_count && list.count < 4; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!self->is_past_caches || !x->is_flat || x->bytes == 0) continue;
        list.from[list.count] = inputs[i] + AHEAD;
        list.bytes[list.count++] = x->bytes;
    }
    return list;
}

static void run_blocks(vec_program *self, char *const *inputs, char *out, int64_t count) {
    const vec_link *first = self->code.links;
    ahead list = inputs_ahead(self, inputs);
    vf zero = {0};
    point_links(self, inputs, out);
    for (int64_t at = 0; at < count; at += VEC_BLOCK) {
        for (uint32_t i = 0; i < list.count; i++) {
            const char *line = list.from[i] + at * list.bytes[i];
            for (int64_t byte = 0; byte < VEC_BLOCK * list.bytes[i]; byte += 64)
                __builtin_prefetch(line + byte, 0, 0);
        }
        first->run(first, at, zero, zero, zero, zero, zero, zero, zero, zero);
    }
}

/* One number to every lane of a block. */
static void spread(const vec_program *self, const vec_operand *x, const int64_t *at) {
    char *cells = x->cells;
    vec_load_cells(&self->sweep, x, at, 1, cells);
    size_t bytes = rlx_dtype_block_bytes(x->cell);
    for (size_t i = 1; i < VEC_BLOCK; i *= 2)
        memcpy(cells + i * bytes, cells, i * bytes);
}

static char *find_input(const vec_program *self, const vec_operand *x, int64_t index,
                        const int64_t *at, int64_t count) {
    int64_t offset = x->is_flat ? index : 0;
    if (is_spread(self, x)) {
        if (x->cells != NULL) spread(self, x, at);
        return x->cells;
    }
    if (!is_side_by_side(self, x)) {
        vec_load_cells(&self->sweep, x, at, count, x->cells);
        return x->cells;
    }
    for (uint32_t d = 0; !x->is_flat && d < self->sweep.rank; d++)
        offset += at[d] * x->strides[d];
    return (char *)x->tensor->data + offset * x->bytes;
}

static void move_on(const vec_program *self, char **inputs, char **out, int64_t count) {
    bool writes = vec_writes_output(self);
    rlx_dtype stored = writes ? self->output.tensor->dtype : self->output.cell;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!is_spread(self, x)) inputs[i] += count * memory_bytes(self, x);
    }
    *out += count * rlx_dtype_block_bytes(stored);
}

void vec_run_code(vec_program *self, int64_t index, const int64_t *at, int64_t count) {
    const vec_operand *y = &self->output;
    char *inputs[VEC_INPUTS], *out = self->result;
    vec_link *last = &self->code.links[self->code.count - 1];
    for (uint32_t i = 0; i < self->input_count; i++)
        inputs[i] = find_input(self, &self->inputs[i], index, at, count);
    if (vec_writes_output(self)) out = (char *)y->tensor->data + index * y->bytes;
    if (self->is_past_caches) {
        /* Whole blocks begin where streaming stores may. */
        int64_t head = -index & (VEC_BLOCK - 1);
        if (head > count) head = count;
        if (head > 0) {
            run_rest(self, inputs, out, head);
            move_on(self, inputs, &out, head);
            count -= head;
        }
        last->run = vec_link_of_store(y->tensor->dtype, true);
    }
    int64_t whole = count / VEC_BLOCK * VEC_BLOCK;
    if (whole > 0) run_blocks(self, inputs, out, whole);
    if (whole == count) return;
    move_on(self, inputs, &out, whole);
    run_rest(self, inputs, out, count - whole);
}
