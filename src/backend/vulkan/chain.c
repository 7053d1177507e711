/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the SPIR-V of a chain. shaders/chain.comp is a library: its functions compute one op each,
 * and main() stores what evaluate() returns. Here evaluate() gets a new body that calls them in the
 * order of the chain, and functions that nobody calls are left out, so that a driver compiles one
 * straight line of code. Why not an interpreter: docs/decisions. */
#include "backend/vulkan/chain.h"

#include "ir/dtype.h"

#include <stdio.h>

/* Numbers of the SPIR-V specification. */
enum {
    OP_SOURCE = 3,
    OP_SOURCE_EXTENSION = 4,
    OP_NAME = 5,
    OP_MEMBER_NAME = 6,
    OP_ENTRY_POINT = 15,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_POINTER = 32,
    OP_TYPE_FUNCTION = 33,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_FUNCTION = 54,
    OP_FUNCTION_END = 56,
    OP_FUNCTION_CALL = 57,
    OP_VARIABLE = 59,
    OP_STORE = 62,
    OP_LABEL = 248,
    OP_RETURN_VALUE = 254,
    STORAGE_FUNCTION = 7,
    CAPABILITY_FLOAT64 = 10,
    HEADER_WORDS = 5,
    BOUND = 3, /* place of the id bound in the header */
    NAME_BYTES = 40
};

/* What an instruction becomes: up to three calls, each of the value before it. */
typedef struct recipe {
    char names[3][NAME_BYTES]; /* "" ends them */
    uint32_t main;             /* which of them is the op, with all its operands */
    bool has_pair[3];          /* constants instead of operand k */
    uint64_t pair[3];
    char second[NAME_BYTES]; /* of operand 1 first; "": as it is */
} recipe;

static char class_of(rlx_dtype dtype) {
    if (dtype == RLX_DTYPE_F64) return 'D';
    switch (rlx_dtype_row_of(dtype)->class_) {
    case RLX_CLASS_FLOAT:
        return 'F';
    case RLX_CLASS_SIGNED:
        return 'S';
    default:
        return 'U';
    }
}

static bool is_known(rlx_dtype dtype, bool has_f64) {
    return dtype <= RLX_DTYPE_BOOL && (dtype != RLX_DTYPE_F64 || has_f64);
}

static rlx_dtype dtype_of(const rlx_chain_instruction *code, const rlx_dtype *inputs,
                          int64_t operand) {
    return operand >= 0 ? inputs[operand] : code[-operand - 1].dtype;
}

/* Integer ops by whether their sign matters. */
static bool is_signed_op(rlx_op op) {
    switch (op) {
    case RLX_OP_ABS:
    case RLX_OP_SIGN:
    case RLX_OP_RELU:
    case RLX_OP_CLIP:
    case RLX_OP_DIV:
    case RLX_OP_MOD:
    case RLX_OP_FMOD:
    case RLX_OP_MIN:
    case RLX_OP_MAX:
    case RLX_OP_PRELU:
    case RLX_OP_SHIFT_RIGHT:
    case RLX_OP_LESS:
    case RLX_OP_LESS_EQUAL:
    case RLX_OP_GREATER:
    case RLX_OP_GREATER_EQUAL:
        return true;
    default:
        return false;
    }
}

static bool is_integer_op(rlx_op op) {
    switch (op) {
    case RLX_OP_IDENTITY:
    case RLX_OP_NEG:
    case RLX_OP_SQUARE:
    case RLX_OP_BIT_NOT:
    case RLX_OP_NOT:
    case RLX_OP_ADD:
    case RLX_OP_SUB:
    case RLX_OP_MUL:
    case RLX_OP_AND:
    case RLX_OP_OR:
    case RLX_OP_XOR:
    case RLX_OP_BIT_AND:
    case RLX_OP_BIT_OR:
    case RLX_OP_BIT_XOR:
    case RLX_OP_SHIFT_LEFT:
    case RLX_OP_EQUAL:
    case RLX_OP_NOT_EQUAL:
    case RLX_OP_WHERE:
    case RLX_OP_POW:
        return true;
    default:
        return is_signed_op(op);
    }
}

/* Of f64 there are no shaders for these: large angles take a thousand bits of pi, and erf is long.
 */
static bool is_f64_op(rlx_op op) {
    return !(op >= RLX_OP_SIN && op <= RLX_OP_ATAN) && op != RLX_OP_ERF && op != RLX_OP_GELU;
}
_Static_assert(RLX_OP_ATAN == RLX_OP_SIN + 5, "sin cos tan asin acos atan");

/* The last call of an instruction: its result as wide as its dtype. */
static void add_width(rlx_dtype dtype, recipe *out) {
    uint32_t n = 0;
    if (dtype <= RLX_DTYPE_F32 || dtype == RLX_DTYPE_I64 || dtype == RLX_DTYPE_U64) return;
    while (out->names[n][0] != 0)
        n++;
    (void)snprintf(out->names[n], NAME_BYTES, "as_%s", rlx_dtype_name(dtype));
}

/* The call that makes a value of one class one of another; "": none. An f64 that becomes narrower
 * than f32 is rounded once. */
static void name_conversion(rlx_dtype from, rlx_dtype to, char *out_name) {
    char is = class_of(from), wanted = class_of(to);
    const char *wide = is == 'D' || wanted == 'D' ? "D_" : "";
    bool is_whole = is == 'S' || is == 'U', is_to_whole = wanted == 'S' || wanted == 'U';
    out_name[0] = 0;
    if (is == wanted || (is_whole && is_to_whole)) return;
    if (is == 'D' && wanted == 'F' && to != RLX_DTYPE_F32) {
        (void)snprintf(out_name, NAME_BYTES, "D_to_odd");
    } else if (is_to_whole || is == 'D') {
        (void)snprintf(out_name, NAME_BYTES, "%sto_%s", wide, rlx_dtype_name(to));
    } else {
        (void)snprintf(out_name, NAME_BYTES, "%sfrom_%c", wide, is - 'A' + 'a');
    }
}

static void plan_cast(rlx_dtype from, rlx_dtype to, recipe *out) {
    bool is_to_whole = class_of(to) == 'S' || class_of(to) == 'U';
    name_conversion(from, to, out->names[0]);
    if (out->names[0][0] == 0 || !is_to_whole) add_width(to, out);
}

static int64_t to_integer(double value, rlx_dtype dtype) {
    int64_t result = 0;
    bool is_signed = class_of(dtype) == 'S';
    double limit = is_signed ? 9223372036854775808.0 : 18446744073709551616.0;
    uint32_t bits = rlx_dtype_block_bytes(dtype) * 8;
    if (value != value) return 0;
    if (bits < 64) limit = (double)(UINT64_C(1) << (is_signed ? bits - 1 : bits));
    if (value >= limit) return (int64_t)(UINT64_MAX >> (64 - bits) >> (is_signed ? 1 : 0));
    if (!is_signed) return value > 0 ? (int64_t)(uint64_t)value : 0;
    result = value < -limit ? INT64_MIN >> (64 - bits) : (int64_t)value;
    return result;
}

static double ceil_of(double value) {
    return value > 9e18 || value < -9e18 || (double)(int64_t)value >= value ? value
           : value != value                                                 ? value
                            : (double)((int64_t)value + 1);
}

static void plan_constants(const rlx_chain_instruction *at, rlx_dtype first, rlx_dtype second,
                           recipe *out) {
    if (class_of(first) == 'D') {
        if (at->operands[1] != RLX_CHAIN_NONE) return;
        out->has_pair[1] = out->has_pair[2] = true;
        memcpy(&out->pair[1], &at->alpha, sizeof at->alpha);
        memcpy(&out->pair[2], &at->beta, sizeof at->beta);
        return;
    }
    if (at->op == RLX_OP_CLIP && class_of(first) != 'F') {
        out->has_pair[1] = out->has_pair[2] = true;
        out->pair[1] = (uint64_t)to_integer(ceil_of(at->alpha), first);
        out->pair[2] = (uint64_t)to_integer(-ceil_of(-at->beta), first);
    }
    if (at->op == RLX_OP_SHIFT_LEFT || at->op == RLX_OP_SHIFT_RIGHT) {
        out->has_pair[2] = true;
        out->pair[2] = rlx_dtype_block_bytes(first) * 8u;
    }
    if (at->op == RLX_OP_POW && class_of(first) != 'F') {
        out->has_pair[2] = true;
        out->pair[2] = (uint64_t)(class_of(second) == 'S') | (uint64_t)(class_of(first) == 'S')
                                                                 << 32;
    }
}

/* Both operands of pow in the class of the base; integers to the power of floats in f64. */
static const char *plan_power(rlx_dtype first, rlx_dtype second, bool has_f64, recipe *out) {
    bool is_float = class_of(first) == 'F' || class_of(first) == 'D';
    rlx_dtype in = is_float ? first : RLX_DTYPE_F64;
    if (!is_float && class_of(second) != 'F' && class_of(second) != 'D') return NULL;
    if (!is_float && !has_f64) return "no shader for integers to the power of floats";
    name_conversion(second, in == RLX_DTYPE_F64 ? in : RLX_DTYPE_F32, out->second);
    if (is_float) return NULL;
    name_conversion(first, in, out->names[0]);
    (void)snprintf(out->names[1], NAME_BYTES, "D_pow");
    name_conversion(in, first, out->names[2]);
    return NULL;
}

/* How an instruction is computed; why not, or NULL. */
static const char *plan_instruction(const rlx_chain_instruction *code, uint32_t index,
                                    const rlx_dtype *inputs, bool has_f64, recipe *out) {
    const rlx_chain_instruction *at = &code[index];
    rlx_dtype first = dtype_of(code, inputs, at->operands[at->op == RLX_OP_WHERE ? 1 : 0]);
    rlx_dtype second =
        at->operands[1] == RLX_CHAIN_NONE ? first : dtype_of(code, inputs, at->operands[1]);
    char prefix = class_of(first);
    *out = (recipe){0};
    if (!is_known(at->dtype, has_f64) || !is_known(first, has_f64) || !is_known(second, has_f64)) {
        return "no shader for this dtype";
    }
    if (at->op == RLX_OP_CAST) {
        plan_cast(first, at->dtype, out);
        return NULL;
    }
    if (prefix == 'D' && !is_f64_op(at->op)) return "no shader for this op of f64";
    if ((prefix == 'S' || prefix == 'U') && !is_integer_op(at->op)) {
        return "no shader for this op on integers";
    }
    if ((prefix == 'S' && !is_signed_op(at->op)) || at->op == RLX_OP_WHERE) prefix = 'U';
    if (at->op == RLX_OP_POW) {
        const char *why = plan_power(first, second, has_f64, out);
        if (why != NULL || out->names[0][0] != 0) return why;
    }
    (void)snprintf(out->names[0], NAME_BYTES, "%c_%s", prefix, rlx_op_name(at->op));
    plan_constants(at, first, second, out);
    if (at->dtype != RLX_DTYPE_BOOL) add_width(at->dtype, out);
    return NULL;
}

const char *rlx_vk_chain_check(const rlx_chain_instruction *code, uint32_t count,
                               const rlx_dtype *inputs, bool has_f64) {
    recipe scratch;
    for (uint32_t i = 0; i < count; i++) {
        const char *why = plan_instruction(code, i, inputs, has_f64, &scratch);
        if (why != NULL) return why;
    }
    return NULL;
}

bool rlx_vk_chain_faults(const rlx_chain_instruction *code, uint32_t count,
                         const rlx_dtype *inputs) {
    for (uint32_t i = 0; i < count; i++) {
        rlx_op op = code[i].op;
        if (op != RLX_OP_DIV && op != RLX_OP_MOD && op != RLX_OP_FMOD) continue;
        char class_ = class_of(dtype_of(code, inputs, code[i].operands[0]));
        if (class_ == 'S' || class_ == 'U') return true;
    }
    return false;
}

/* The library, taken apart. */
typedef struct function {
    uint32_t id, at, end; /* words [at, end) */
    bool is_needed;
} function;

typedef struct assembler {
    const rlx_allocator *allocator;
    const uint32_t *words;
    uint32_t word_count;
    RLX_VEC(function) functions;
    uint32_t first_function; /* word */
    uint32_t uint_type, float_type, pair_type, pair_pointer, float_pointer;
    uint32_t entry, evaluate, next_id;
    bool has_f64;           /* a function of f64 is called; they begin with D_ */
    RLX_VEC(uint32_t) gone; /* types of f64, where none is */
    uint32_t variables[5];  /* the five parameters of every function */
    rlx_vk_code constants, body;
    rlx_status status;
} assembler;

static void put(assembler *self, rlx_vk_code *code, uint32_t word) {
    if (self->status == RLX_OK) self->status = rlx_vec_push(self->allocator, code, word);
}

static void put_op(assembler *self, rlx_vk_code *code, uint32_t op, uint32_t count,
                   const uint32_t *operands) {
    put(self, code, (count + 1) << 16 | op);
    for (uint32_t i = 0; i < count; i++)
        put(self, code, operands[i]);
}
#define PUT_OP(self, code, op, ...)                                                                \
    put_op((self), (code), (op), (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), \
           (const uint32_t[]){__VA_ARGS__})

static uint32_t new_id(assembler *self) {
    return self->next_id++;
}

static uint32_t op_at(const assembler *self, uint32_t at) {
    return self->words[at] & 0xffff;
}

static uint32_t size_at(const assembler *self, uint32_t at) {
    return self->words[at] >> 16;
}

static function *find_function(assembler *self, uint32_t id) {
    for (uint32_t i = 0; i < self->functions.count; i++) {
        if (self->functions.items[i].id == id) return &self->functions.items[i];
    }
    return NULL;
}

/* The function of that name: glslang writes "name(parameters". */
static uint32_t find_name(const assembler *self, const char *name) {
    size_t length = strlen(name);
    for (uint32_t at = HEADER_WORDS; at < self->first_function; at += size_at(self, at)) {
        const char *text = (const char *)&self->words[at + 2];
        if (op_at(self, at) != OP_NAME) continue;
        if (strncmp(text, name, length) == 0 && text[length] == '(') return self->words[at + 1];
    }
    return 0;
}

static void note_type(assembler *self, uint32_t at) {
    const uint32_t *words = &self->words[at];
    if (op_at(self, at) == OP_TYPE_INT && words[2] == 32 && words[3] == 0) {
        self->uint_type = words[1];
    }
    if (op_at(self, at) == OP_TYPE_FLOAT && words[2] == 32) self->float_type = words[1];
    if (op_at(self, at) == OP_ENTRY_POINT) self->entry = words[2];
}

static void note_pointer(assembler *self, uint32_t at) {
    const uint32_t *words = &self->words[at];
    if (op_at(self, at) != OP_TYPE_POINTER || words[2] != STORAGE_FUNCTION) return;
    if (words[3] == self->float_type) self->float_pointer = words[1];
    if (words[3] == self->pair_type) self->pair_pointer = words[1];
}

static rlx_status take_apart(assembler *self) {
    uint32_t at = HEADER_WORDS;
    for (; at < self->word_count && op_at(self, at) != OP_FUNCTION; at += size_at(self, at))
        note_type(self, at);
    self->first_function = at;
    for (uint32_t start = at; at < self->word_count; at += size_at(self, at)) {
        if (op_at(self, at) == OP_FUNCTION) start = at;
        if (op_at(self, at) != OP_FUNCTION_END) continue;
        function one = {self->words[start + 2], start, at + size_at(self, at), false};
        RLX_TRY(rlx_vec_push(self->allocator, &self->functions, one));
    }
    self->evaluate = find_name(self, "evaluate");
    function *evaluate = find_function(self, self->evaluate);
    if (evaluate == NULL) return RLX_FAIL(RLX_INTERNAL, "chain.comp has no evaluate()");
    self->pair_type = self->words[evaluate->at + 1];
    for (at = HEADER_WORDS; at < self->first_function; at += size_at(self, at))
        note_pointer(self, at);
    self->next_id = self->words[BOUND];
    return RLX_OK;
}

static uint32_t float_constant(assembler *self, double value) {
    float narrow = (float)value;
    uint32_t bits, id = new_id(self);
    memcpy(&bits, &narrow, sizeof bits);
    PUT_OP(self, &self->constants, OP_CONSTANT, self->float_type, id, bits);
    return id;
}

static uint32_t pair_constant(assembler *self, uint64_t value) {
    uint32_t low = new_id(self), high = new_id(self), id = new_id(self);
    PUT_OP(self, &self->constants, OP_CONSTANT, self->uint_type, low, (uint32_t)value);
    PUT_OP(self, &self->constants, OP_CONSTANT, self->uint_type, high, (uint32_t)(value >> 32));
    PUT_OP(self, &self->constants, OP_CONSTANT_COMPOSITE, self->pair_type, id, low, high);
    return id;
}

/* Calls a function of the library; the first `count` of its parameters have been stored. */
static uint32_t call(assembler *self, const char *name, bool has_parameters) {
    uint32_t target = find_name(self, name), result = new_id(self);
    function *found = target == 0 ? NULL : find_function(self, target);
    if (found == NULL) {
        if (self->status == RLX_OK) {
            self->status = RLX_FAIL(RLX_INTERNAL, "chain.comp has no function '%s'", name);
        }
        return result;
    }
    found->is_needed = true;
    if (name[0] == 'D') self->has_f64 = true;
    if (!has_parameters) {
        PUT_OP(self, &self->body, OP_FUNCTION_CALL, self->pair_type, result, target);
    } else {
        const uint32_t *v = self->variables;
        PUT_OP(self, &self->body, OP_FUNCTION_CALL, self->pair_type, result, target, v[0], v[1],
               v[2], v[3], v[4]);
    }
    return result;
}

static void store(assembler *self, uint32_t variable, uint32_t value) {
    PUT_OP(self, &self->body, OP_STORE, self->variables[variable], value);
}

static uint32_t emit_instruction(assembler *self, const rlx_chain_instruction *at,
                                 const recipe *how, const uint32_t *operands) {
    uint32_t value = operands[0];
    for (uint32_t k = 0; k < 3; k++) {
        uint32_t operand = operands[k];
        if (how->has_pair[k]) operand = pair_constant(self, how->pair[k]);
        if (k == 1 && how->second[0] != 0) {
            store(self, 0, operand);
            operand = call(self, how->second, true);
        }
        if (operand != 0 && k > 0) store(self, k, operand);
    }
    store(self, 3, float_constant(self, at->alpha));
    store(self, 4, float_constant(self, at->beta));
    for (uint32_t n = 0; n < 3 && how->names[n][0] != 0; n++) {
        store(self, 0, value);
        value = call(self, how->names[n], true);
    }
    return value;
}

/* The new body of evaluate(). */
static void emit_body(assembler *self, const rlx_chain_instruction *code, uint32_t count,
                      const rlx_dtype *inputs) {
    uint32_t results[RLX_VK_CHAIN_MOST] = {0}, loads[16] = {0};
    uint32_t types[5] = {self->pair_pointer, self->pair_pointer, self->pair_pointer,
                         self->float_pointer, self->float_pointer};
    PUT_OP(self, &self->body, OP_LABEL, new_id(self));
    for (uint32_t i = 0; i < 5; i++) {
        self->variables[i] = new_id(self);
        PUT_OP(self, &self->body, OP_VARIABLE, types[i], self->variables[i], STORAGE_FUNCTION);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t operands[3] = {0};
        recipe how;
        (void)plan_instruction(code, i, inputs, true, &how);
        for (uint32_t k = 0; k < 3; k++) {
            int64_t operand = code[i].operands[k];
            if (operand == RLX_CHAIN_NONE) continue;
            if (operand >= 0 && loads[operand] == 0) {
                char name[NAME_BYTES];
                (void)snprintf(name, sizeof name, "load_%u", (unsigned)operand + 1);
                loads[operand] = call(self, name, false);
            }
            operands[k] = operand >= 0 ? loads[operand] : results[-operand - 1];
        }
        results[i] = emit_instruction(self, &code[i], &how, operands);
    }
    PUT_OP(self, &self->body, OP_RETURN_VALUE, results[count - 1]);
    put_op(self, &self->body, OP_FUNCTION_END, 0, NULL);
}

/* Everything that main() and the new body reach. */
static void mark_needed(assembler *self) {
    bool has_changed = true;
    find_function(self, self->entry)->is_needed = true;
    while (has_changed) {
        has_changed = false;
        for (uint32_t i = 0; i < self->functions.count; i++) {
            const function *one = &self->functions.items[i];
            if (!one->is_needed || one->id == self->evaluate) continue;
            for (uint32_t at = one->at; at < one->end; at += size_at(self, at)) {
                function *callee = op_at(self, at) == OP_FUNCTION_CALL
                                       ? find_function(self, self->words[at + 3])
                                       : NULL;
                if (callee == NULL || callee->is_needed) continue;
                callee->is_needed = has_changed = true;
            }
        }
    }
}

static void put_range(assembler *self, rlx_vk_code *out, uint32_t at, uint32_t end) {
    for (uint32_t i = at; i < end; i++)
        put(self, out, self->words[i]);
}

static bool is_gone(const assembler *self, uint32_t id) {
    for (uint32_t i = 0; i < self->gone.count; i++) {
        if (self->gone.items[i] == id) return true;
    }
    return false;
}

/* Whether a declaration is of f64, which a device may not have and this chain does not use. Types
 * that are made of such a one are too. */
static bool is_left_out(assembler *self, uint32_t at) {
    const uint32_t *words = &self->words[at];
    uint32_t op = op_at(self, at);
    bool is_out = false;
    if (self->has_f64) return false;
    if (op == OP_CAPABILITY) return words[1] == CAPABILITY_FLOAT64;
    if (op == OP_CONSTANT || op == OP_CONSTANT_COMPOSITE) return is_gone(self, words[1]);
    if (op == OP_TYPE_FLOAT) is_out = words[2] == 64;
    if (op == OP_TYPE_POINTER) is_out = is_gone(self, words[3]);
    for (uint32_t i = 2; op == OP_TYPE_FUNCTION && i < size_at(self, at) && !is_out; i++)
        is_out = is_gone(self, words[i]);
    if (is_out && self->status == RLX_OK) {
        self->status = rlx_vec_push(self->allocator, &self->gone, words[1]);
    }
    return is_out;
}

static void put_together(assembler *self, rlx_vk_code *out) {
    put_range(self, out, 0, HEADER_WORDS);
    for (uint32_t at = HEADER_WORDS; at < self->first_function; at += size_at(self, at)) {
        uint32_t op = op_at(self, at);
        if (op == OP_NAME || op == OP_MEMBER_NAME || op == OP_SOURCE || op == OP_SOURCE_EXTENSION) {
            continue; /* names would speak of functions that are gone */
        }
        if (is_left_out(self, at)) continue;
        put_range(self, out, at, at + size_at(self, at));
    }
    for (uint32_t i = 0; i < self->constants.count; i++)
        put(self, out, self->constants.items[i]);
    for (uint32_t i = 0; i < self->functions.count; i++) {
        const function *one = &self->functions.items[i];
        if (!one->is_needed) continue;
        if (one->id != self->evaluate) {
            put_range(self, out, one->at, one->end);
            continue;
        }
        put_range(self, out, one->at, one->at + size_at(self, one->at));
        for (uint32_t w = 0; w < self->body.count; w++)
            put(self, out, self->body.items[w]);
    }
    if (self->status == RLX_OK) out->items[BOUND] = self->next_id;
}

rlx_status rlx_vk_chain_assemble(const rlx_allocator *allocator, const uint32_t *library,
                                 uint32_t words, const rlx_chain_instruction *code, uint32_t count,
                                 const rlx_dtype *inputs, rlx_vk_code *out_code) {
    assembler self = {.allocator = allocator, .words = library, .word_count = words};
    rlx_vk_code result = {0};
    self.status = take_apart(&self);
    if (self.status == RLX_OK) {
        emit_body(&self, code, count, inputs);
        mark_needed(&self);
        put_together(&self, &result);
    }
    rlx_vec_free(allocator, &self.functions);
    rlx_vec_free(allocator, &self.gone);
    rlx_vec_free(allocator, &self.constants);
    rlx_vec_free(allocator, &self.body);
    if (self.status != RLX_OK) {
        rlx_vec_free(allocator, &result);
        return self.status;
    }
    *out_code = result;
    return RLX_OK;
}
