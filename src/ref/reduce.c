/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over any axes; one item is one output element. Floats are summed in f64, integers
 * modulo 2^64. Of nothing: sum 0, product 1, mean NaN (integers 0), max and min the far end of the
 * dtype's range. */
#include "ref/kernel.h"
#include "ref/order.h"

#include <math.h>

enum { CHUNK = 256, LANES = 4, WIDTH = 64 };

/* The elements that one output stands for: `count` runs of `length` along the last reduced axis. */
typedef struct reduction {
    const rlx_tensor *x, *y;
    uint32_t kept_rank, rank; /* axes that number the outputs; reduced axes but the last */
    int64_t kept_dims[RLX_MAX_RANK], kept_strides[RLX_MAX_RANK], y_strides[RLX_MAX_RANK];
    int64_t dims[RLX_MAX_RANK], strides[RLX_MAX_RANK];
    int64_t count, length, stride;
    rlx_op op;
} reduction;

static uint32_t reduced_axes(const rlx_reduce_attrs *attrs, uint32_t rank) {
    uint32_t bits = 0;
    if (attrs->axes.count == 0) return (1u << rank) - 1;
    for (uint32_t i = 0; i < attrs->axes.count; i++) {
        int64_t axis = attrs->axes.items[i];
        bits |= 1u << (axis < 0 ? axis + rank : axis);
    }
    return bits;
}

static reduction make_reduction(const rlx_kernel_args *args) {
    const rlx_reduce_attrs *attrs = args->attrs;
    const rlx_tensor *x = &args->in[0];
    uint32_t bits = reduced_axes(attrs, x->rank), y_axis = 0;
    reduction red = {.x = x, .y = &args->out[0], .count = 1, .length = 1, .op = args->op};
    for (uint32_t i = 0; i < x->rank; i++) {
        if (bits >> i & 1) {
            red.dims[red.rank] = x->dims[i];
            red.strides[red.rank++] = x->strides[i];
            if (attrs->keep_dims) y_axis++;
            continue;
        }
        red.kept_dims[red.kept_rank] = x->dims[i];
        red.kept_strides[red.kept_rank] = x->strides[i];
        red.y_strides[red.kept_rank++] = red.y->strides[y_axis++];
    }
    if (red.rank > 0) {
        red.rank--;
        red.length = red.dims[red.rank];
        red.stride = red.strides[red.rank];
    }
    for (uint32_t i = 0; i < red.rank; i++)
        red.count *= red.dims[i];
    return red;
}

static int64_t run_offset(const reduction *red, int64_t base, int64_t run) {
    return base + rlx_ref_offset(red->rank, red->dims, red->strides, run);
}

/* What the sum is made of: the elements, their magnitudes, squares or exponentials, in place. */
static void make_terms(rlx_op op, double shift, double *chunk, int64_t count) {
    switch (op) {
    case RLX_OP_REDUCE_L1:
        for (int64_t i = 0; i < count; i++)
            chunk[i] = fabs(chunk[i]);
        break;
    case RLX_OP_REDUCE_L2:
    case RLX_OP_REDUCE_SUM_SQUARE:
        for (int64_t i = 0; i < count; i++)
            chunk[i] *= chunk[i];
        break;
    case RLX_OP_REDUCE_LOG_SUM_EXP:
        for (int64_t i = 0; i < count; i++)
            chunk[i] = exp(chunk[i] - shift);
        break;
    default:
        break;
    }
}

/* Adds (multiplies) term i to partial result i % LANES. */
static void join(bool is_product, const double *chunk, int64_t count, double *part) {
    int64_t i = 0;
    if (is_product) {
        for (; i < count; i++)
            part[i % LANES] *= chunk[i];
        return;
    }
    for (; i + LANES <= count; i += LANES) {
        for (int64_t j = 0; j < LANES; j++)
            part[j] += chunk[i + j];
    }
    for (; i < count; i++)
        part[i % LANES] += chunk[i];
}

static double join_parts(bool is_product, double a, double b, double c, double d) {
    return is_product ? a * b * c * d : a + b + c + d;
}

/* The sum (or product) of all terms, in four partial results that are joined at the end. */
static double fold(const reduction *red, int64_t base, double shift) {
    bool is_product = red->op == RLX_OP_REDUCE_PROD;
    double chunk[CHUNK], part[LANES] = {is_product, is_product, is_product, is_product};
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = run_offset(red, base, run);
        for (int64_t i = 0; i < red->length; i += CHUNK) {
            int64_t count = rlx_ref_least(CHUNK, red->length - i);
            rlx_ref_read_f64(red->x, offset + i * red->stride, red->stride, count, chunk);
            make_terms(red->op, shift, chunk, count);
            join(is_product, chunk, count, part);
        }
    }
    return join_parts(is_product, part[0], part[1], part[2], part[3]);
}

/* `width` outputs at once whose elements lie side by side: the same sums in the same order, but
 * memory is read along its rows. */
static void fold_side_by_side(const reduction *red, int64_t base, int64_t width, double *sums) {
    bool is_product = red->op == RLX_OP_REDUCE_PROD;
    double row[WIDTH], part[LANES][WIDTH];
    for (int64_t lane = 0; lane < LANES; lane++) {
        for (int64_t j = 0; j < width; j++)
            part[lane][j] = is_product;
    }
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = run_offset(red, base, run);
        for (int64_t i = 0; i < red->length; i++) {
            double *to = part[i % LANES];
            rlx_ref_read_f64(red->x, offset + i * red->stride, 1, width, row);
            make_terms(red->op, 0, row, width);
            for (int64_t j = 0; j < width; j++)
                to[j] = is_product ? to[j] * row[j] : to[j] + row[j];
        }
    }
    for (int64_t j = 0; j < width; j++)
        sums[j] = join_parts(is_product, part[0][j], part[1][j], part[2][j], part[3][j]);
}

/* The offset of the largest (least) element; -1 of none. NaN wins. */
static int64_t find_end(const reduction *red, int64_t base, bool largest) {
    uint64_t best_key = 0, nan_key = largest ? UINT64_MAX : 0;
    int64_t best = -1;
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = run_offset(red, base, run);
        for (int64_t i = 0; i < red->length; i++) {
            uint64_t key = rlx_ref_key(red->x, offset + i * red->stride, nan_key);
            if (best >= 0 && (largest ? key <= best_key : key >= best_key)) continue;
            best_key = key;
            best = offset + i * red->stride;
        }
    }
    return best;
}

static double log_sum_exp(const reduction *red, int64_t base) {
    int64_t at = find_end(red, base, true);
    if (at < 0) return -INFINITY;
    double most = rlx_load_f64(red->x->dtype, red->x->data, at);
    if (isinf(most) || isnan(most)) return most;
    return most + log(fold(red, base, most));
}

static double finish(const reduction *red, double sum) {
    switch (red->op) {
    case RLX_OP_REDUCE_MEAN:
        return sum / (double)(red->count * red->length);
    case RLX_OP_REDUCE_L2:
        return sqrt(sum);
    case RLX_OP_REDUCE_LOG_SUM:
        return log(sum);
    default:
        return sum;
    }
}

static void reduce_float(const reduction *red, int64_t base, int64_t out) {
    double value = red->op == RLX_OP_REDUCE_LOG_SUM_EXP ? log_sum_exp(red, base)
                                                        : finish(red, fold(red, base, 0));
    rlx_ref_write_f64(red->y, out, 1, 1, &value);
}

/* How many items from `item` on can be folded side by side; 0 where that is of no use. */
static int64_t side_by_side(const reduction *red, int64_t item, int64_t end) {
    uint32_t last = red->kept_rank - 1;
    if (red->kept_rank == 0 || red->kept_strides[last] != 1 || red->stride == 1) return 0;
    if (red->op == RLX_OP_REDUCE_LOG_SUM_EXP || red->op == RLX_OP_REDUCE_MAX ||
        red->op == RLX_OP_REDUCE_MIN)
        return 0;
    int64_t left = red->kept_dims[last] - item % red->kept_dims[last];
    return rlx_ref_least(WIDTH, rlx_ref_least(left, end - item));
}

static uint64_t fold_integers(const reduction *red, int64_t base, bool is_signed) {
    uint64_t result = red->op == RLX_OP_REDUCE_PROD;
    for (int64_t run = 0; run < red->count; run++) {
        int64_t offset = run_offset(red, base, run);
        for (int64_t i = 0; i < red->length; i++) {
            uint64_t x =
                (uint64_t)rlx_load_i64(red->x->dtype, red->x->data, offset + i * red->stride);
            switch (red->op) {
            case RLX_OP_REDUCE_PROD:
                result *= x;
                break;
            case RLX_OP_REDUCE_SUM_SQUARE:
                result += x * x;
                break;
            case RLX_OP_REDUCE_L1:
                result += is_signed && (int64_t)x < 0 ? 0 - x : x;
                break;
            default:
                result += x;
                break;
            }
        }
    }
    return result;
}

static void reduce_integer(const reduction *red, int64_t base, int64_t out, bool is_signed) {
    uint64_t result = fold_integers(red, base, is_signed);
    int64_t count = red->count * red->length;
    if (red->op == RLX_OP_REDUCE_MEAN && count != 0) {
        result = is_signed ? (uint64_t)((int64_t)result / count) : result / (uint64_t)count;
    }
    rlx_store_i64(red->y->dtype, red->y->data, out, (int64_t)result);
}

static void run_reduce(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    reduction red = make_reduction(args);
    rlx_dtype_class class_ = rlx_dtype_row_of(red.x->dtype)->class_;
    bool is_max = red.op == RLX_OP_REDUCE_MAX, is_min = red.op == RLX_OP_REDUCE_MIN;
    for (int64_t item = begin; item < end; item++) {
        int64_t base = rlx_ref_offset(red.kept_rank, red.kept_dims, red.kept_strides, item);
        int64_t out = rlx_ref_offset(red.kept_rank, red.kept_dims, red.y_strides, item);
        int64_t width = class_ == RLX_CLASS_FLOAT ? side_by_side(&red, item, end) : 0;
        if (width > 1) {
            double sums[WIDTH];
            fold_side_by_side(&red, base, width, sums);
            for (int64_t j = 0; j < width; j++)
                sums[j] = finish(&red, sums[j]);
            rlx_ref_write_f64(red.y, out, red.y_strides[red.kept_rank - 1], width, sums);
            item += width - 1;
        } else if (is_max || is_min) {
            int64_t at = find_end(&red, base, is_max);
            if (at < 0) {
                rlx_ref_store_limit(red.y, out, is_min);
            } else {
                rlx_ref_copy_element(red.y, out, red.x, at);
            }
        } else if (class_ == RLX_CLASS_FLOAT) {
            reduce_float(&red, base, out);
        } else {
            reduce_integer(&red, base, out, class_ == RLX_CLASS_SIGNED);
        }
    }
}

static int64_t reduce_items(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->out[0]);
}

static int64_t reduce_item_cost(const rlx_kernel_args *args) {
    reduction red = make_reduction(args);
    return rlx_ref_cost(rlx_ref_cost(red.count, red.length), 2);
}

#define ROW(upper, lower)                                                                 \
    {                                                                                     \
        RLX_OP_REDUCE_##upper, {                                                          \
            "reduce_" #lower "_scalar", run_reduce, reduce_items, reduce_item_cost, NULL, \
        }                                                                                 \
    }
const rlx_ref_row rlx_ref_reduce_rows[] = {
    ROW(SUM, sum),
    ROW(MEAN, mean),
    ROW(MAX, max),
    ROW(MIN, min),
    ROW(PROD, prod),
    ROW(L1, l1),
    ROW(L2, l2),
    ROW(LOG_SUM, log_sum),
    ROW(LOG_SUM_EXP, log_sum_exp),
    ROW(SUM_SQUARE, sum_square),
};
const uint32_t rlx_ref_reduce_count = sizeof rlx_ref_reduce_rows / sizeof rlx_ref_reduce_rows[0];
