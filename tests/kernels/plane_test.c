/* SPDX-License-Identifier: Apache-2.0 */
/* Planes whose rows become columns, on every vector level and for every size of unit: few rows or
 * columns, odd edges, planes in a cache, tile by tile, and past the caches; with holes on both
 * sides and any alignment. Both sides end where memory ends, what lies between result rows stays as
 * it is, and items run in any order. */
#include "backend/cpu/table.h"
#include "ir/dtype.h"
#include "kernels/levels.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_CASES = 1500, MOST_BYTES = 40 << 20, BLANK = 0xa5 };

/* Sizes in units. */
typedef struct plane {
    int64_t batch, rows, cols;
    int64_t into, out_of;           /* from row to row, from column to column */
    int64_t next_into, next_out_of; /* from plane to plane */
} plane;

static uint64_t random_state = 1;
static int64_t pick(int64_t least, int64_t most) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)((random_state >> 33) % (uint64_t)(most - least + 1));
}

static plane plane_of(int64_t batch, int64_t rows, int64_t cols, int64_t gap) {
    plane self = {.batch = batch, .rows = rows, .cols = cols};
    self.into = cols + (gap > 0 ? pick(0, gap) : 0);
    self.out_of = rows + (gap > 0 ? pick(0, gap) : 0);
    self.next_into = rows * self.into;
    self.next_out_of = cols * self.out_of;
    return self;
}

/* From the first unit to the end of the last. */
static int64_t written_units(const plane *self) {
    return (self->batch - 1) * self->next_into + (self->rows - 1) * self->into + self->cols;
}
static int64_t read_units(const plane *self) {
    return (self->batch - 1) * self->next_out_of + (self->cols - 1) * self->out_of + self->rows;
}

static void run_items(const rlx_cpu_level *level, const rlx_tensor *from, rlx_tensor *to) {
    rlx_target_query query = {
        .op = RLX_OP_COPY, .in = from, .out = to, .in_count = 1, .out_count = 1};
    rlx_kernel_args args = {
        .op = RLX_OP_COPY, .in = from, .out = to, .in_count = 1, .out_count = 1};
    const rlx_kernel *kernel = rlx_cpu_choose(level, &query);
    int64_t step = pick(1, 3);
    for (int64_t end = kernel->items(&args); end > 0; end -= step)
        kernel->run(&args, end > step ? end - step : 0, end);
}

static int64_t differences(const plane *self, int64_t unit, const uint8_t *from, uint8_t *to) {
    int64_t wrong = 0, bytes = written_units(self) * unit;
    for (int64_t b = 0; b < self->batch; b++) {
        for (int64_t r = 0; r < self->rows; r++) {
            for (int64_t c = 0; c < self->cols; c++) {
                uint8_t *at = to + (b * self->next_into + r * self->into + c) * unit;
                wrong += memcmp(at, from + (b * self->next_out_of + r + c * self->out_of) * unit,
                                (size_t)unit) != 0;
                memset(at, BLANK, (size_t)unit);
            }
        }
    }
    for (int64_t i = 0; i < bytes; i++)
        wrong += to[i] != BLANK;
    return wrong;
}

/* `end`: where memory ends, of both sides. */
static int check(const rlx_cpu_level *level, rlx_dtype dtype, const plane *self,
                 uint8_t *const end[2]) {
    int64_t unit = rlx_dtype_block_bytes(dtype);
    uint8_t *from = end[0] - read_units(self) * unit, *to = end[1] - written_units(self) * unit;
    rlx_tensor in = {.data = from,
                     .dtype = dtype,
                     .rank = 3,
                     .dims = {self->batch, self->rows, self->cols},
                     .strides = {self->next_out_of, 1, self->out_of}};
    rlx_tensor out = in;
    out.data = to;
    out.strides[0] = self->next_into;
    out.strides[1] = self->into;
    out.strides[2] = 1;
    memset(to, BLANK, (size_t)(end[1] - to));
    run_items(level, &in, &out);
    int64_t wrong = differences(self, unit, from, to);
    if (wrong == 0) return 0;
    fprintf(stderr, "%s, unit %d: [%d, %d, %d], steps %d and %d: %d differences\n", level->name,
            (int)unit, (int)self->batch, (int)self->rows, (int)self->cols, (int)self->into,
            (int)self->out_of, (int)wrong);
    return 1;
}

static int check_unit(const rlx_cpu_level *level, rlx_dtype dtype, uint8_t *const end[2]) {
    static const int64_t large[][4] = {/* batch, rows, cols, gap; rows are of four bytes */
                                       {1, 401, 403, 0},   {1, 128, 1200, 3}, {1, 1300, 131, 9},
                                       {3, 257, 261, 0},   {1, 3, 70001, 0},  {1, 70001, 3, 0},
                                       {1, 4, 50021, 2},   {1, 90001, 7, 0},  {1, 1024, 512, 0},
                                       {1, 4100, 1025, 0}, {1, 1027, 4103, 1}};
    int64_t unit = rlx_dtype_block_bytes(dtype), more = unit < 4 ? 4 / unit : 1;
    int failed = 0;
    for (uint32_t i = 0; i < SMALL_CASES; i++) {
        int64_t most = i % 5 == 0 ? 150 : 36;
        plane small = plane_of(pick(1, 2), pick(1, most), pick(1, most), i % 3 == 0 ? 5 : 0);
        failed += check(level, dtype, &small, end);
    }
    for (uint32_t i = 0; i < sizeof large / sizeof *large; i++) {
        int64_t rows = large[i][1], cols = large[i][2];
        int64_t shrinks = unit == 8 ? 2 : 1;
        if (rows > cols) rows = rows * more / shrinks;
        if (rows <= cols) cols = cols * more / shrinks;
        plane far = plane_of(large[i][0], rows, cols, large[i][3]);
        failed += check(level, dtype, &far, end);
    }
    return failed;
}

/* Memory that ends where no other begins. */
static uint8_t *map_until(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bytes = (bytes + page - 1) / page * page;
    uint8_t *memory =
        mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + bytes, page, PROT_NONE) != 0) return NULL;
    return memory + bytes;
}

int main(void) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_U8, RLX_DTYPE_F16, RLX_DTYPE_F32, RLX_DTYPE_I64};
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t count = kernel_levels(levels);
    uint8_t *end[2] = {map_until(MOST_BYTES), map_until(MOST_BYTES)};
    int failed = 0;
    if (end[0] == NULL || end[1] == NULL) return 1;
    for (int64_t i = 1; i <= MOST_BYTES; i++)
        end[0][-i] = (uint8_t)((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
            failed += check_unit(levels[i], dtypes[k], end);
    }
    return failed != 0;
}
