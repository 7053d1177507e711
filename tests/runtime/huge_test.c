/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors past 2^31 elements through compile, arena and kernels: every index and every offset must
 * be wide enough. As it stands, the same graphs with a million elements; `test_runtime_huge whole`
 * takes 2^31 + 65539 bytes per tensor and up to 9 GiB, and leaves out what the machine has no
 * memory for; a name after that picks one test, a pattern some. */
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/session.h>

#include <stdio.h>
#include <stdlib.h>

/* `count` is a multiple of it. */
enum { ROWS = 3 };
static uint64_t count = (UINT64_C(1) << 20) + 65540; /* a multiple of 3 */

typedef struct huge_run {
    rlx_device *device;
    rlx_session *session;
    rlx_program *program;
    rlx_exec *exec;
} huge_run;

static uint64_t available_bytes(void) {
    unsigned long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    }
    fclose(file);
    return (uint64_t)kib * 1024;
}

static void close_run(huge_run *run) {
    rlx_exec_destroy(run->exec);
    rlx_program_release(run->program);
    rlx_session_destroy(run->session);
    rlx_device_release(run->device);
}

/* The text of a model, in which "{N}" is `count`, "{N-4}" four less, "{N/3}" a third of it and
 * "{N/3-1}" one less than that. */
static void expand(const char *body, char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "rlx 1\n");
    for (const char *at = body; *at != '\0' && used + 32 < capacity;) {
        char sign;
        long number = 0;
        if (*at != '{') {
            text[used++] = *at++;
            continue;
        }
        uint64_t value = count;
        for (const char *next = at + 2; sscanf(next, "%c%ld", &sign, &number) == 2;) {
            if (sign == '-') value -= (uint64_t)number;
            if (sign == '+') value += (uint64_t)number;
            if (sign == '/') value /= (uint64_t)number;
            next += 1 + strspn(next + 1, "0123456789");
        }
        used += (size_t)snprintf(text + used, capacity - used, "%" PRIu64, value);
        at = strchr(at, '}') + 1;
    }
    text[used] = '\0';
}

static void open_run(const char *body, huge_run *run) {
    char text[2048];
    rlx_graph *graph = NULL;
    *run = (huge_run){0};
    expand(body, text, sizeof text);
    assert_ok(rlx_device_open("cpu", NULL, &run->device));
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &run->session));
    assert_ok(rlx_session_compile(run->session, run->device, NULL, NULL, &run->program));
    uint64_t needed = rlx_plan_arena_bytes(rlx_program_plan(run->program));
    assert_true(needed < UINT64_C(9) << 30);
    if (available_bytes() < needed + (UINT64_C(1) << 30)) {
        print_message("needs %" PRIu64 " MiB and one GiB to spare: left out\n", needed >> 20);
        close_run(run);
        skip();
    }
    assert_ok(rlx_exec_create(run->program, NULL, &run->exec));
}

static uint8_t pattern(uint64_t seed, uint64_t index) {
    return (uint8_t)(((index + seed) * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* Fills an input in place; `mask` bounds its values. */
static void fill(huge_run *run, uint32_t input, uint64_t elements, uint8_t mask) {
    void *address;
    assert_ok(rlx_exec_input_address(run->exec, 0, input, &address));
    uint8_t *data = address;
    for (uint64_t i = 0; i < elements; i++)
        data[i] = pattern(input, i) & mask;
}

static void poke(huge_run *run, uint32_t input, uint64_t index, uint8_t value) {
    void *address;
    assert_ok(rlx_exec_input_address(run->exec, 0, input, &address));
    ((uint8_t *)address)[index] = value;
}

static const uint8_t *output(huge_run *run, uint32_t index, uint64_t bytes) {
    const void *address;
    rlx_output_info info;
    assert_ok(rlx_exec_output(run->exec, 0, index, &info));
    assert_int_equal(info.bytes, bytes);
    assert_ok(rlx_exec_output_address(run->exec, 0, index, &address));
    return address;
}

static int64_t scalar(huge_run *run, uint32_t index) {
    int64_t value;
    memcpy(&value, output(run, index, sizeof value), sizeof value);
    return value;
}

static void sums_and_copies_reach_the_end(void **state) {
    huge_run run;
    (void)state;
    open_run("input a : u8[{N}]\ninput b : u8[{N}]\ny = add(a, b)\nz = copy(y)\noutput z\n", &run);
    fill(&run, 0, count, 255);
    fill(&run, 1, count, 255);
    assert_ok(rlx_exec_run(run.exec, 0));
    const uint8_t *y = output(&run, 0, count);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += y[i] != (uint8_t)(pattern(0, i) + pattern(1, i));
    assert_int_equal(wrong, 0);
    close_run(&run);
}

static void booleans_and_casts_reach_the_end(void **state) {
    huge_run run;
    (void)state;
    open_run("input a : u8[{N}]\nb = cast(a) to=bool\nc = not(b)\nd = cast(c) to=u8\n"
             "e = bit_or(d, a)\noutput e\n",
             &run);
    fill(&run, 0, count, 3);
    assert_ok(rlx_exec_run(run.exec, 0));
    const uint8_t *y = output(&run, 0, count);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint8_t a = pattern(0, i) & 3;
        wrong += y[i] != (a == 0 ? 1 : a);
    }
    assert_int_equal(wrong, 0);
    close_run(&run);
}

static void the_last_element_is_found(void **state) {
    huge_run run;
    (void)state;
    open_run("input x : i8[{N}]\nm = reduce_max(x)\ni = arg_max(x) axis=0\n"
             "v, k = top_k(x) k=2 axis=0\nq = cast(m) to=i64\noutput q\noutput i\noutput k\n",
             &run);
    fill(&run, 0, count, 63);
    poke(&run, 0, count - 1, 127);
    poke(&run, 0, count - 3, 126);
    assert_ok(rlx_exec_run(run.exec, 0));
    int64_t best[2];
    assert_int_equal(scalar(&run, 0), 127);
    assert_int_equal(scalar(&run, 1), count - 1);
    memcpy(best, output(&run, 2, sizeof best), sizeof best);
    assert_int_equal(best[0], count - 1);
    assert_int_equal(best[1], count - 3);
    close_run(&run);
}

static void indices_and_slices_reach_the_end(void **state) {
    huge_run run;
    (void)state;
    open_run("input x : u8[{N}]\nconst i : i64[5] = [0, {N-1}, -1, -{N}, {N-70000}]\n"
             "g = gather(x, i) axis=0\ns = slice(x) starts=[{N-7}] ends=[{N}] axes=[0]\n"
             "t = slice(x) starts=[-1] ends=[-{N}] axes=[0] steps=[-{N-2}]\n"
             "y = concat(g, s, t) axis=0\noutput y\n",
             &run);
    fill(&run, 0, count, 255);
    assert_ok(rlx_exec_run(run.exec, 0));
    const uint64_t from[14] = {0,         count - 1, count - 1, 0,         count - 70000,
                               count - 7, count - 6, count - 5, count - 4, count - 3,
                               count - 2, count - 1, count - 1, 1};
    const uint8_t *y = output(&run, 0, 14);
    for (uint32_t i = 0; i < 14; i++)
        assert_int_equal(y[i], pattern(0, from[i]));
    close_run(&run);
}

static void transposed_and_joined_rows_keep_their_place(void **state) {
    huge_run run;
    const uint64_t columns = count / ROWS;
    (void)state;
    open_run("input x : u8[3, {N/3}]\nt = transpose(x)\nc = copy(t)\noutput c\n", &run);
    fill(&run, 0, count, 255);
    assert_ok(rlx_exec_run(run.exec, 0));
    const uint8_t *y = output(&run, 0, count);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < columns; i++) {
        for (uint64_t r = 0; r < ROWS; r++)
            wrong += y[i * ROWS + r] != pattern(0, r * columns + i);
    }
    assert_int_equal(wrong, 0);
    close_run(&run);
    open_run("input a : i8[{N/3}]\ninput b : i8[{N/3}]\nna = abs(a)\nnb = abs(b)\n"
             "y = concat(na, nb, a, b) axis=0\nz = slice(y) starts=[5] ends=[{N}] axes=[0]\n"
             "r = reduce_sum(z)\nq = cast(r) to=i64\noutput q\noutput y\n",
             &run);
    fill(&run, 0, columns, 127);
    fill(&run, 1, columns, 127);
    assert_ok(rlx_exec_run(run.exec, 0));
    y = output(&run, 1, columns * 4);
    for (uint64_t i = wrong = 0; i < columns * 4; i++)
        wrong += y[i] != (pattern(i / columns % 2, i % columns) & 127);
    assert_int_equal(wrong, 0);
    uint8_t sum = 0;
    for (uint64_t i = 5; i < count; i++)
        sum = (uint8_t)(sum + (pattern(i / columns % 2, i % columns) & 127));
    assert_int_equal((uint8_t)scalar(&run, 0), sum);
    close_run(&run);
}

static void long_dot_products_wrap_and_nothing_else(void **state) {
    huge_run run;
    uint32_t expected = 0;
    (void)state;
    open_run("input a : i8[1, {N}]\ninput b : i8[{N}, 1]\nm = matmul(a, b) to=i32\n"
             "q = cast(m) to=i64\noutput q\n",
             &run);
    fill(&run, 0, count, 127);
    fill(&run, 1, count, 127);
    assert_ok(rlx_exec_run(run.exec, 0));
    for (uint64_t i = 0; i < count; i++)
        expected += (uint32_t)(pattern(0, i) & 127) * (uint32_t)(pattern(1, i) & 127);
    assert_int_equal((uint32_t)scalar(&run, 0), expected);
    close_run(&run);
}

/* Rows far apart: a product of the columns at the end with the ones in front, both ways. */
static void products_reach_the_last_columns(void **state) {
    huge_run run;
    const uint64_t columns = count / ROWS;
    (void)state;
    /* [3][N / 3] times [N / 3][1]: sums of rows whose last begins past 2^30 */
    open_run("input a : i8[3, {N/3}]\ninput b : i8[{N/3}, 1]\nm = matmul(a, b) to=i32\n"
             "q = cast(m) to=i64\noutput q\n",
             &run);
    fill(&run, 0, count, 127);
    fill(&run, 1, columns, 127);
    assert_ok(rlx_exec_run(run.exec, 0));
    int64_t sums[ROWS];
    memcpy(sums, output(&run, 0, sizeof sums), sizeof sums);
    for (uint64_t r = 0; r < ROWS; r++) {
        uint32_t expected = 0;
        for (uint64_t i = 0; i < columns; i++)
            expected +=
                (uint32_t)(pattern(0, r * columns + i) & 127) * (uint32_t)(pattern(1, i) & 127);
        assert_int_equal((uint32_t)sums[r], expected);
    }
    close_run(&run);
}

/* Lines of softmax and norms whose elements are far apart, and rows that begin far away: 16-bit
 * numbers, so that bytes pass 2^31 with half the elements. */
static void rows_and_lines_reach_the_end(void **state) {
    huge_run run;
    const uint64_t columns = count / 6;
    (void)state;
    open_run("input x : u8[3, {N/6}]\nh = cast(x) to=f16\ns = softmax(h) axis=0\n"
             "r = reduce_sum(s) axes=[0]\nb = round(r)\nc = cast(b) to=u8\n"
             "m = reduce_max(x) axes=[1]\nt = reduce_min(c)\noutput t\noutput m\n",
             &run);
    fill(&run, 0, columns * ROWS, 3);
    poke(&run, 0, columns * 1 - 1, 100);
    poke(&run, 0, columns * 2 - 1, 101);
    poke(&run, 0, columns * 3 - 1, 102);
    assert_ok(rlx_exec_run(run.exec, 0));
    assert_int_equal(*output(&run, 0, 1), 1); /* every line adds up to 1 */
    assert_memory_equal(output(&run, 1, 3), "\x64\x65\x66", 3);
    close_run(&run);
}

/* Rows found by index in a table past 2^31 bytes, put into a result of that size, and turned. */
static void gathered_rows_reach_the_end(void **state) {
    huge_run run;
    const uint64_t columns = count / ROWS;
    (void)state;
    open_run("input x : u8[{N/3}, 3]\nconst i : i64[3] = [0, {N/3-1}, -2]\n"
             "g = gather(x, i) axis=0\nt = transpose(x)\ne = gather(t, i) axis=1\n"
             "f = copy(e)\noutput g\noutput f\n",
             &run);
    fill(&run, 0, count, 255);
    assert_ok(rlx_exec_run(run.exec, 0));
    const uint64_t rows[ROWS] = {0, columns - 1, columns - 2};
    const uint8_t *g = output(&run, 0, 9), *e = output(&run, 1, 9);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t c = 0; c < 3; c++) {
            assert_int_equal(g[r * 3 + c], pattern(0, rows[r] * 3 + c));
            assert_int_equal(e[c * 3 + r], pattern(0, rows[r] * 3 + c));
        }
    }
    close_run(&run);
}

/* Pads and broadcasts: what is small becomes large, and strides of 0 meet large ones. */
static void padded_and_broadcast_results_reach_the_end(void **state) {
    huge_run run;
    const uint64_t columns = count / ROWS;
    (void)state;
    open_run("input x : u8[{N/3}]\ninput k : u8[3, 1]\nb = bit_xor(x, k)\n"
             "p = slice(b) starts=[{N/3-3}] ends=[{N/3}] axes=[1]\nw = pad(b) pads=[0, 2, 0, 1]\n"
             "v = slice(w) starts=[{N/3}] ends=[{N/3+3}] axes=[1]\noutput p\noutput v\n",
             &run);
    fill(&run, 0, columns, 255);
    fill(&run, 1, ROWS, 255);
    assert_ok(rlx_exec_run(run.exec, 0));
    const uint8_t *p = output(&run, 0, 9), *v = output(&run, 1, 9);
    for (uint64_t r = 0; r < ROWS; r++) {
        for (uint64_t c = 0; c < 3; c++) {
            uint8_t here = pattern(0, columns - 3 + c) ^ pattern(1, r);
            uint64_t at = columns - 2 + c; /* of b: two columns of padding in front */
            assert_int_equal(p[r * 3 + c], here);
            assert_int_equal(v[r * 3 + c], at < columns ? pattern(0, at) ^ pattern(1, r) : 0);
        }
    }
    close_run(&run);
}

/* A state of that length, written near its end, and the typed reads of the arena there. */
static void states_and_arena_reads_reach_the_end(void **state) {
    huge_run run;
    const uint8_t rows[4] = {11, 22, 33, 44};
    int64_t position = (int64_t)count - 4;
    uint32_t slot;
    float values[6];
    uint8_t bytes[4];
    uint64_t done;
    (void)state;
    open_run("state s : u8[{N}]\ninput r : u8[4]\ninput p : i64[]\n"
             "t, n = state_write(s, r, p)\nm = reduce_max(t)\nq = cast(m) to=i64\n"
             "output n\noutput q\n",
             &run);
    assert_ok(rlx_exec_set(run.exec, 0, "r", rows, sizeof rows));
    assert_ok(rlx_exec_set(run.exec, 0, "p", &position, sizeof position));
    assert_ok(rlx_exec_run(run.exec, 0));
    assert_int_equal(scalar(&run, 0), count);
    assert_int_equal(scalar(&run, 1), 44);

    rlx_arena *arena = rlx_exec_arena(run.exec);
    assert_ok(rlx_plan_find_slot(rlx_program_plan(run.program), "s", &slot));
    assert_int_equal(rlx_arena_slot_elements(arena, slot), count);
    assert_ok(rlx_arena_read_f32(arena, slot, count - 6, values, 6, 0, NULL));
    assert_true(values[0] == 0 && values[1] == 0 && values[2] == 11 && values[5] == 44);
    assert_ok(rlx_arena_read_any_f32(arena, RLX_DTYPE_U8, rlx_arena_offset(arena, slot) + count - 4,
                                     values, 4));
    assert_true(values[0] == 11 && values[3] == 44);
    values[0] = 77;
    assert_ok(rlx_arena_write_f32(arena, slot, count - 1, values, 2, RLX_ARENA_TRUNCATE, &done));
    assert_int_equal(done, 1);
    assert_ok(rlx_arena_copy(arena, slot, count - 4, slot, 1, 4));
    assert_ok(rlx_arena_read_bytes(arena, slot, 1, bytes, 4, 0, NULL));
    assert_memory_equal(bytes, "\x0b\x16\x21\x4d", 4);
    assert_status(RLX_OUT_OF_BOUNDS,
                  rlx_arena_read_bytes(arena, slot, count - 3, bytes, 4, 0, NULL));

    position++; /* one row too far */
    assert_ok(rlx_exec_set(run.exec, 0, "r", rows, sizeof rows));
    assert_ok(rlx_exec_set(run.exec, 0, "p", &position, sizeof position));
    assert_status(RLX_FAULT, rlx_exec_run(run.exec, 0));
    close_run(&run);
}

int main(int argument_count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_copies_reach_the_end),
        cmocka_unit_test(booleans_and_casts_reach_the_end),
        cmocka_unit_test(the_last_element_is_found),
        cmocka_unit_test(indices_and_slices_reach_the_end),
        cmocka_unit_test(transposed_and_joined_rows_keep_their_place),
        cmocka_unit_test(long_dot_products_wrap_and_nothing_else),
        cmocka_unit_test(products_reach_the_last_columns),
        cmocka_unit_test(rows_and_lines_reach_the_end),
        cmocka_unit_test(gathered_rows_reach_the_end),
        cmocka_unit_test(padded_and_broadcast_results_reach_the_end),
        cmocka_unit_test(states_and_arena_reads_reach_the_end),
    };
    if (argument_count > 1 && strcmp(arguments[1], "whole") == 0) {
        count = (UINT64_C(1) << 31) + 65539; /* a multiple of 3 */
    }
    if (argument_count > 2) cmocka_set_test_filter(arguments[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
