/* SPDX-License-Identifier: Apache-2.0 */
/* An elementwise op or a chain made ready to run: how its operands are stepped through, its
 * instructions, their registers, the size of tiles. None of it depends on data, so it is done once
 * per stretch and not once per run. */
#include "backend/cpu/vec/elementwise.h"

enum {
    CELL_MEMORY = VEC_FRAME_MOST,
    CACHED_CELLS = 24 * 1024, /* what tiles are made small for */
    LEAST_TILE = 32,
    LONG_ROW = 512,   /* from here on tiles end with their row and need not be gathered */
    SHORT_ROW = 192,  /* the same for links that need no tiles */
    TURNED_ROW = 128, /* up to here tiles of turned inputs are whole rows, else rectangles */
    TURNED_TILE = 4096,
    TURNED_ROWS = 64, /* of a rectangle: 256 bytes of memory side by side */
    ITEM_ELEMENTS = 4096,
    LARGE_ITEM = 16384,     /* of outputs from LARGE_OUTPUT elements on */
    LARGE_OUTPUT = 1 << 20, /* elements */
    HUGE_ITEM = 65536,      /* the end of an item waits for its streaming stores */
    HUGE_OUTPUT = 8 << 20,
    PAST_CACHES = 24 << 20 /* bytes of output that are written past the caches */
};
_Static_assert((RLX_CHAIN_MOST + VEC_INPUTS + 1) * LEAST_TILE * 8 <= CELL_MEMORY, "tiles fit");

static vec_run choose_run(const vec_step *step) {
    vec_run run = NULL;
    rlx_dtype cell = vec_cell_of(step->operands[0]);
    if (step->op == RLX_OP_WHERE || step->op == RLX_OP_IDENTITY) {
        run = vec_choose_integer(step);
    } else if (step->op == RLX_OP_CAST) {
        run = vec_choose_cast(step);
    } else if (cell == RLX_DTYPE_F32) {
        bool is_mixed = step->op == RLX_OP_POW && vec_cell_of(step->operands[1]) != RLX_DTYPE_F32;
        run = is_mixed ? NULL : vec_choose_f32(step);
    } else if (cell == RLX_DTYPE_F64) {
        run = vec_choose_f64(step);
    } else {
        run = vec_choose_integer(step);
    }
    return run != NULL ? run : vec_run_scalar;
}

/* The sweep: dims of the output but 1s, by falling stride, merged. Strides of all operands are kept
 * in step; `axes` are the output's. */
static int64_t axis_stride(const rlx_tensor *tensor, uint32_t out_rank, uint32_t out_axis) {
    uint32_t missing = out_rank - tensor->rank;
    if (out_axis < missing || tensor->dims[out_axis - missing] == 1) return 0;
    return tensor->strides[out_axis - missing];
}

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* The output's axes in the order of its memory. Axes of equal stride keep their order. */
static uint32_t sort_axes(const rlx_tensor *out, uint32_t *axes) {
    uint32_t count = 0;
    for (uint32_t axis = 0; axis < out->rank; axis++) {
        uint32_t at = count;
        if (out->dims[axis] == 1) continue;
        for (; at > 0 && magnitude(out->strides[axes[at - 1]]) < magnitude(out->strides[axis]);
             at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
        count++;
    }
    return count;
}

static void place_operand(const vec_program *self, vec_operand *operand, const rlx_tensor *tensor,
                          const uint32_t *axes, uint32_t count) {
    operand->tensor = tensor;
    for (uint32_t d = 0; d < count; d++)
        operand->strides[d] = axis_stride(tensor, self->args->out[0].rank, axes[d]);
}

static bool dims_merge(const vec_program *self, uint32_t outer, uint32_t inner, int64_t dim) {
    if (self->output.strides[outer] != self->output.strides[inner] * dim) return false;
    for (uint32_t i = 0; i < self->input_count; i++) {
        const int64_t *strides = self->inputs[i].strides;
        if (strides[outer] != strides[inner] * dim) return false;
    }
    return true;
}

static void move_dim(vec_program *self, uint32_t to, uint32_t from) {
    if (to == from) return;
    self->output.strides[to] = self->output.strides[from];
    for (uint32_t i = 0; i < self->input_count; i++)
        self->inputs[i].strides[to] = self->inputs[i].strides[from];
}

static void make_sweep(vec_program *self) {
    const rlx_kernel_args *args = self->args;
    const rlx_tensor *out = &args->out[0];
    uint32_t axes[RLX_MAX_RANK], count = sort_axes(out, axes);
    self->input_count = args->in_count;
    place_operand(self, &self->output, out, axes, count);
    for (uint32_t i = 0; i < args->in_count; i++)
        place_operand(self, &self->inputs[i], &args->in[i], axes, count);
    vec_sweep *sweep = &self->sweep;
    sweep->rank = 0;
    for (uint32_t d = 0; d < count; d++) {
        int64_t dim = out->dims[axes[d]];
        if (sweep->rank > 0 && dims_merge(self, sweep->rank - 1, d, dim)) {
            sweep->dims[sweep->rank - 1] *= dim;
            move_dim(self, sweep->rank - 1, d);
        } else {
            move_dim(self, sweep->rank, d);
            sweep->dims[sweep->rank++] = dim;
        }
    }
    if (sweep->rank > 0) return;
    sweep->rank = 1, sweep->dims[0] = 1;
    self->output.strides[0] = 1;
    for (uint32_t i = 0; i < args->in_count; i++)
        self->inputs[i].strides[0] = 1;
}

static void describe(const vec_sweep *sweep, vec_operand *operand) {
    rlx_dtype dtype = operand->tensor->dtype;
    int64_t expected = 1;
    operand->cell = vec_cell_of(dtype);
    operand->has_cells = operand->cell == dtype;
    bool is_half = dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
    operand->bytes = operand->has_cells || is_half ? rlx_dtype_block_bytes(dtype) : 0;
    operand->is_flat = operand->is_number = true;
    for (uint32_t d = sweep->rank; d-- > 0;) {
        operand->is_flat &= operand->strides[d] == expected;
        operand->is_number &= operand->strides[d] == 0;
        expected *= sweep->dims[d];
    }
    operand->is_turned = sweep->rank > 1 && operand->bytes != 0 &&
                         operand->strides[sweep->rank - 2] == 1 &&
                         operand->strides[sweep->rank - 1] > 1;
    operand->cells_at = -1;
}

static bool has_rectangles(const vec_program *self) {
    return self->turned_count > 0 && self->output.is_flat &&
           self->sweep.dims[self->sweep.rank - 1] > TURNED_ROW;
}

/* The cells of an input are where its memory is. */
static bool is_direct(const vec_program *self, const vec_operand *x) {
    if (!x->has_cells) return false;
    return x->is_flat || (self->keeps_rows && x->strides[self->sweep.rank - 1] == 1);
}

static void load_step(vec_program *self, uint32_t index, const rlx_chain_instruction *instruction) {
    vec_step *step = &self->steps[index];
    step->args = self->args;
    step->op = instruction->op;
    step->dtype = instruction->dtype;
    step->alpha = instruction->alpha;
    step->beta = instruction->beta;
    step->in_count = 0;
    for (uint32_t k = 0; k < 3 && instruction->operands[k] != RLX_CHAIN_NONE; k++) {
        int64_t operand = instruction->operands[k];
        step->operands[k] =
            operand >= 0 ? self->args->in[operand].dtype : self->steps[-1 - operand].dtype;
        /* Results are named by their instruction until registers are given out. */
        step->in[k] = (uint16_t)(operand >= 0 ? operand : VEC_INPUTS - 1 - operand);
        step->in_count++;
    }
    step->run = choose_run(step);
}

/* Gives each result a register from its instruction to its last use. An operand's is not taken
 * over by the result: cells of other widths must not overlap. */
static void give_registers(vec_program *self) {
    uint16_t last_use[RLX_CHAIN_MOST], given[RLX_CHAIN_MOST], spare[RLX_CHAIN_MOST];
    uint32_t spare_count = 0, used = 0;
    for (uint32_t i = 0; i < self->step_count; i++) {
        last_use[i] = (uint16_t)i;
        for (uint32_t k = 0; k < self->steps[i].in_count; k++) {
            if (self->steps[i].in[k] >= VEC_INPUTS)
                last_use[self->steps[i].in[k] - VEC_INPUTS] = (uint16_t)i;
        }
    }
    for (uint32_t i = 0; i < self->step_count; i++) {
        vec_step *step = &self->steps[i];
        given[i] = spare_count > 0 ? spare[--spare_count] : (uint16_t)used++;
        step->out = (uint16_t)(VEC_INPUTS + given[i]);
        for (uint32_t k = 0; k < step->in_count; k++) {
            if (step->in[k] < VEC_INPUTS) continue;
            uint32_t result = step->in[k] - VEC_INPUTS;
            step->in[k] = (uint16_t)(VEC_INPUTS + given[result]);
            if (last_use[result] == i) {
                spare[spare_count++] = given[result];
                last_use[result] = UINT16_MAX; /* given back once, even if used twice here */
            }
        }
        if (last_use[i] == i) spare[spare_count++] = given[i];
    }
    self->register_count = used;
}

static void load_steps(vec_program *self) {
    const rlx_kernel_args *args = self->args;
    if (args->op == RLX_OP_CHAIN) {
        rlx_list code = ((const rlx_chain_attrs *)args->attrs)->code;
        self->step_count = rlx_chain_count(code);
        for (uint32_t i = 0; i < self->step_count; i++) {
            rlx_chain_instruction instruction = rlx_chain_at(code, i);
            load_step(self, i, &instruction);
        }
        give_registers(self);
        return;
    }
    rlx_chain_instruction single = {.op = args->op, .dtype = args->out[0].dtype};
    for (uint32_t i = 0; i < 3; i++)
        single.operands[i] = i < args->in_count ? (int64_t)i : RLX_CHAIN_NONE;
    if (args->in_count == 1 && args->attrs != NULL && args->op != RLX_OP_CAST &&
        args->op != RLX_OP_IDENTITY) {
        const rlx_unary_attrs *attrs = args->attrs;
        single.alpha = attrs->alpha;
        single.beta = attrs->beta;
    }
    self->step_count = self->register_count = 1;
    load_step(self, 0, &single);
    self->steps[0].out = VEC_INPUTS;
}

/* Whether the output is large enough to be written past the caches, and may be. */
static bool passes_caches(const vec_program *self, int64_t elements) {
    const vec_operand *y = &self->output;
    if (!y->is_flat || y->bytes == 0 || elements < PAST_CACHES / (int64_t)y->bytes) return false;
    if ((uintptr_t)y->tensor->data % 64 != 0) return false;
    for (uint32_t i = 0; i < self->input_count; i++) {
        if (self->inputs[i].tensor->data == y->tensor->data) return false;
    }
    return true;
}

/* How links see an operand: where it is, as one number for all of a span, or as a tile. */
static void describe_to_links(const vec_program *self, vec_operand *x) {
    int64_t stride = x->strides[self->sweep.rank - 1];
    bool is_row = self->keeps_rows && stride == 1, is_one = self->keeps_rows && stride == 0;
    x->is_along = x->bytes != 0 && (x->is_flat || is_row);
    x->is_spread = x->is_number || is_one;
    x->at_link = x->is_along && !x->is_spread ? x->tensor->dtype : x->cell;
    x->link_bytes = rlx_dtype_block_bytes(x->at_link);
}

/* The most elements that the tiles have room for. */
static int64_t tile_size(int64_t tiles) {
    const int64_t widest = 8;
    int64_t tile = VEC_TILE;
    while (tile > LEAST_TILE && tiles * tile * 4 > CACHED_CELLS &&
           (tiles * tile * widest > CELL_MEMORY || tile > 256))
        tile /= 2;
    while (tiles * tile * widest > CELL_MEMORY)
        tile /= 2;
    return tile;
}

/* Room for cells of 8 bytes, or for 4 and what they are made of. */
static int64_t rectangle_bytes(int64_t rows) {
    return rows * VEC_TURNED_WIDTH * 8;
}

/* Gives registers, the result and loaded inputs their places in the frame, `bytes` each. */
static void place_tiles(vec_program *self, int64_t bytes) {
    int64_t at = bytes * self->register_count;
    self->register_bytes = bytes;
    self->result_at = at, at += bytes;
    for (uint32_t i = 0; i < self->input_count; i++) {
        vec_operand *x = &self->inputs[i];
        if (is_direct(self, x)) continue;
        x->cells_at = at;
        at += x->is_turned && self->turned_rows > 0 ? rectangle_bytes(self->turned_rows) : bytes;
    }
    self->frame_bytes = at;
}

/* As many rows as there is room for beside tiles of so many bytes; 0: not even two. */
static int64_t rectangle_rows(const vec_program *self, int64_t tiles, int64_t bytes) {
    int64_t rows = TURNED_ROWS, turned = self->turned_count;
    while (rectangle_bytes(rows) > bytes &&
           (tiles - turned) * bytes + turned * rectangle_bytes(rows) > CELL_MEMORY)
        rows /= 2;
    return rows > 1 ? rows : 0;
}

/* Short rows of turned inputs in large tiles: what lies side by side in memory are their columns.
 */
static int64_t turned_tile(int64_t tiles, int64_t tile) {
    int64_t large = TURNED_TILE;
    while (large > tile && tiles * large * 8 > CELL_MEMORY)
        large /= 2;
    return large > tile ? large : tile;
}

/* Whether only what is turned needs tiles. */
static bool reads_turned(const vec_program *self) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        const vec_operand *x = &self->inputs[i];
        if (!x->is_spread && !x->is_along && !x->is_turned) return false;
    }
    return self->writes_output;
}

/* The size of tiles, and where they lie. */
static void lay_out(vec_program *self) {
    int64_t tiles = self->register_count + 1;
    bool is_in_memory;
    for (uint32_t i = 0; i < self->input_count; i++)
        tiles += !is_direct(self, &self->inputs[i]);
    if (self->has_code) {
        is_in_memory = vec_reads_in_place(self);
    } else {
        is_in_memory = self->step_count == 1 && tiles == 2 && self->output.has_cells &&
                       self->output.is_flat && !self->is_past_caches;
    }
    self->tile = tile_size(tiles);
    self->turned_rows = self->turned_width = 0;
    self->runs_turned = false;
    if (has_rectangles(self)) {
        /* Pieces of a row are equal, so that none is too short. */
        int64_t row = self->sweep.dims[self->sweep.rank - 1];
        int64_t pieces = (row + VEC_TURNED_WIDTH - 1) / VEC_TURNED_WIDTH;
        self->turned_width = (row + pieces - 1) / pieces;
        self->turned_rows = rectangle_rows(self, tiles, self->tile * 8);
        self->runs_turned = self->has_code && !self->is_past_caches && reads_turned(self);
    } else if (self->turned_count > 0 && self->has_code) {
        self->tile = turned_tile(tiles, self->tile);
    }
    /* Code that reads in place has no tiles, only blocks. */
    place_tiles(self, self->has_code && is_in_memory ? VEC_BLOCK * 4 : self->tile * 8);
    if (is_in_memory) self->tile = INT64_MAX; /* one loop over everything */
}

/* Spans that run side by side: rows, or a part of an item each. Intel's cores read memory faster in
 * several places at once, AMD's slower. */
static int64_t span_abreast(const vec_program *self) {
    int64_t row = self->sweep.dims[self->sweep.rank - 1];
    int64_t span = row < self->item / VEC_ABREAST ? row : self->item / VEC_ABREAST;
    bool is_possible = VF >= 16 && vec_is_intel() && self->is_past_caches && self->has_code &&
                       vec_reads_in_place(self) && self->frame_bytes <= VEC_ABREAST_FRAME &&
                       self->link_count <= VEC_ABREAST_LINKS;
    if (!is_possible || span == 0 || span % VEC_BLOCK != 0) return 0; /* rows may be empty */
    return self->sweep.rank == 1 || row % span == 0 ? span : 0;
}

/* Processors ask for memory ahead up to the end of a page: where items do not begin with one, a
 * thread that comes to the end of its items takes the first lines of the next ones from the cache
 * of the thread that works there. */
static int64_t elements_sooner(const vec_program *self) {
    enum { PAGE = 4096 };
    const vec_operand *y = &self->output;
    uintptr_t past = (uintptr_t)y->tensor->data % PAGE;
    bool is_possible = self->sweep.rank == 1 && self->tile == INT64_MAX && self->writes_output &&
                       !self->is_past_caches && past % y->bytes == 0;
    return is_possible ? (int64_t)(past / y->bytes) : 0;
}

/* Items are runs of the sweep, of whole rows if inputs are turned. 4-bit outputs with gaps are one
 * item: neighbours share a byte. */
static int64_t item_elements(const vec_program *self) {
    const vec_operand *y = &self->output;
    bool has_nibbles = rlx_dtype_block_elements(y->tensor->dtype) == 2;
    int64_t row = self->sweep.dims[self->sweep.rank - 1], item = HUGE_ITEM;
    if (has_nibbles && !y->is_flat) return self->elements;
    if (self->elements < HUGE_OUTPUT) item = LARGE_ITEM;
    if (self->elements < LARGE_OUTPUT) item = ITEM_ELEMENTS;
    if (self->turned_count == 0 || row == 0) return item;
    if (has_rectangles(self)) row *= TURNED_ROWS;
    return (item + row - 1) / row * row;
}

static void describe_all(vec_program *self) {
    make_sweep(self);
    describe(&self->sweep, &self->output);
    self->turned_count = 0;
    for (uint32_t i = 0; i < self->input_count; i++) {
        describe(&self->sweep, &self->inputs[i]);
        self->turned_count += self->inputs[i].is_turned;
    }
    self->elements = 1;
    for (uint32_t d = 0; d < self->sweep.rank; d++)
        self->elements *= self->sweep.dims[d];
    self->writes_output = self->output.is_flat && self->output.bytes != 0;
    self->item = item_elements(self);
}

static uint32_t count_steps(const rlx_kernel_args *args) {
    if (args->op != RLX_OP_CHAIN) return 1;
    return rlx_chain_count(((const rlx_chain_attrs *)args->attrs)->code);
}

uint64_t vec_program_bytes(const rlx_kernel_args *args) {
    uint32_t steps = count_steps(args), links = vec_links_most(steps, args->in_count);
    return sizeof(vec_program) + args->in_count * sizeof(vec_operand) + steps * sizeof(vec_step) +
           links * (sizeof(vec_link) + sizeof(uint16_t));
}

/* Code, where rows of so many elements are done one by one. */
static void make_code(vec_program *self, int64_t least_row) {
    uint32_t last = self->sweep.rank - 1;
    self->keeps_rows = last == 0 || self->sweep.dims[last] >= least_row;
    for (uint32_t i = 0; i < self->input_count; i++)
        describe_to_links(self, &self->inputs[i]);
    self->has_code = vec_make_code(self);
}

vec_program *vec_program_make(const rlx_kernel_args *args, void *memory) {
    uint32_t steps = count_steps(args);
    vec_program *self = memory;
    self->args = args;
    self->inputs = (vec_operand *)(void *)(self + 1);
    self->steps = (vec_step *)(void *)(self->inputs + args->in_count);
    self->links = (vec_link *)(void *)(self->steps + steps);
    self->slots = (uint16_t *)(void *)(self->links + vec_links_most(steps, args->in_count));
    describe_all(self);
    load_steps(self);
    self->is_past_caches = passes_caches(self, self->elements);
    self->output.at_link = self->writes_output ? args->out[0].dtype : self->output.cell;
    self->output.link_bytes = rlx_dtype_block_bytes(self->output.at_link);
    make_code(self, SHORT_ROW);
    if (!self->has_code || !vec_reads_in_place(self))
        make_code(self, has_rectangles(self) ? TURNED_ROW : LONG_ROW);
    lay_out(self);
    self->abreast = span_abreast(self);
    self->sooner = elements_sooner(self);
    return self;
}

int64_t vec_program_items(const rlx_kernel_args *args) {
    vec_operand inputs[VEC_INPUTS];
    vec_program self = {.args = args, .inputs = inputs};
    if (rlx_tensor_elements(&args->out[0]) == 0) return 0;
    describe_all(&self);
    return (self.elements - 1) / self.item + 1;
}
