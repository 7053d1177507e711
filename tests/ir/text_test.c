/* SPDX-License-Identifier: Apache-2.0 */
/* The text form: what is printed reads back to the same graph, and what is wrong is said with its
 * line. */
#include "ir/chain.h"
#include "ir/text.h"
#include "support/support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static rlx_graph *parsed(const char *text) {
    rlx_graph *graph = NULL;
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    return graph;
}

static char *printed(const rlx_graph *graph) {
    char *text = NULL;
    assert_ok(rlx_graph_print(graph, &text));
    return text;
}

/* Prints, parses, prints again; both texts must agree. */
static void assert_round_trip(const rlx_graph *graph) {
    char *first = printed(graph);
    rlx_graph *again = parsed(first);
    char *second = printed(again);
    assert_string_equal(first, second);
    rlx_string_free(NULL, first);
    rlx_string_free(NULL, second);
    rlx_graph_destroy(again);
}

static void assert_reads_back(const char *text) {
    rlx_graph *graph = parsed(text);
    char *again = printed(graph);
    assert_string_equal(text, again);
    rlx_string_free(NULL, again);
    rlx_graph_destroy(graph);
}

#define assert_refused(text, message) refused((text), (message), __FILE__, __LINE__)
static void refused(const char *text, const char *message, const char *file, int line) {
    rlx_graph *graph = NULL;
    rlx_test_assert_status(RLX_PARSE, rlx_graph_parse(NULL, text, strlen(text), &graph), file,
                           line);
    rlx_test_assert_error_has(message, file, line);
}

static void golden_files_print_as_they_stand(void **state) {
    (void)state;
    DIR *folder = opendir("../golden/text");
    unsigned count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[512];
        if (strstr(entry->d_name, ".rlx") == NULL) continue;
        snprintf(path, sizeof path, "../golden/text/%s", entry->d_name);
        char *file = rlx_test_read_file(path, NULL);
        assert_non_null(strstr(file, "\nrlx 1\n"));
        assert_reads_back(strstr(file, "\nrlx 1\n") + 1);
        free(file);
        count++;
    }
    closedir(folder);
    assert_true(count >= 3);
}

/* Some value of every kind that is not the default. */
static void fill_field(rlx_test_random *random, const rlx_field *field, unsigned char *at,
                       int64_t *items) {
    uint32_t number = (uint32_t)rlx_test_below(random, 4), count = 0;
    double real = (double)rlx_test_uniform(random, -4, 4);
    switch (field->kind) {
    case RLX_FIELD_BOOL:
        *(bool *)(void *)at = number & 1;
        return;
    case RLX_FIELD_I64:
        *(int64_t *)(void *)at = (int64_t)rlx_test_next(random);
        return;
    case RLX_FIELD_F64:
        memcpy(at, &real, sizeof real);
        return;
    case RLX_FIELD_INTS: {
        rlx_ints ints = {.count = number};
        for (uint32_t i = 0; i < number; i++)
            ints.items[i] = (int64_t)rlx_test_next(random);
        memcpy(at, &ints, sizeof ints);
        return;
    }
    case RLX_FIELD_LIST: {
        for (uint32_t i = 0; i < number; i++)
            items[i] = (int64_t)rlx_test_next(random);
        rlx_list list = {number, items};
        memcpy(at, &list, sizeof list);
        return;
    }
    case RLX_FIELD_DTYPE:
        number = (uint32_t)rlx_test_below(random, RLX_DTYPE_COUNT);
        break;
    case RLX_FIELD_OP:
        number = (uint32_t)rlx_test_below(random, RLX_OP_COUNT);
        break;
    case RLX_FIELD_AUTO_PAD:
    case RLX_FIELD_PAD_MODE:
    case RLX_FIELD_SCATTER_MODE:
    case RLX_FIELD_DIRECTION:
    case RLX_FIELD_GATE:
    case RLX_FIELD_LAYOUT:
    case RLX_FIELD_COMBINE:
        (void)rlx_field_names(field->kind, &count);
        number = (uint32_t)rlx_test_below(random, count);
        break;
    }
    memcpy(at, &number, sizeof number);
}

static void clear_unused(const rlx_op_info *info, unsigned char *attrs) {
    /* A dtype that is not given has no meaning and is not printed. */
    for (uint32_t i = 0; i < info->field_count; i++) {
        if (strcmp(info->fields[i].name, "has_to") != 0 || attrs[info->fields[i].offset]) continue;
        memset(attrs + offsetof(rlx_matmul_attrs, to), 0, sizeof(rlx_dtype));
    }
}

static void every_op_keeps_its_attributes(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(11);
    for (uint32_t op = 1; op < RLX_OP_COUNT; op++) {
        const rlx_op_info *info = rlx_op_info_of((rlx_op)op);
        if (info->flags & RLX_OPF_FLOW) continue;
        for (uint32_t round = 0; round < 8; round++) {
            union {
                int64_t align;
                unsigned char bytes[1024];
            } attrs = {0};
            int64_t items[8], dim;
            rlx_value_id inputs[8], outputs[8];
            rlx_graph *graph = NULL, *again = NULL;
            assert_ok(rlx_graph_create(NULL, &graph));
            assert_ok(rlx_graph_symbol(graph, "N", &dim));
            rlx_shape shape = {.rank = 1, .dims = {dim}};
            for (uint32_t i = 0; i < 8; i++)
                assert_ok(rlx_graph_add_input(graph, NULL, RLX_DTYPE_F32, shape, &inputs[i]));
            for (uint32_t i = 0; i < info->field_count; i++)
                fill_field(&random, &info->fields[i], attrs.bytes + info->fields[i].offset, items);
            clear_unused(info, attrs.bytes);
            uint32_t in_count = info->in_most < 8 ? info->in_most : 8;
            uint32_t out_count = info->out_most < 3 ? info->out_most : 3;
            if (out_count < info->out_least) out_count = info->out_least;
            if (in_count > info->in_least) inputs[info->in_least] = RLX_NONE;
            assert_ok(rlx_graph_add_node(graph, (rlx_op)op, attrs.bytes, inputs, in_count,
                                         out_count, outputs));
            assert_ok(rlx_graph_add_output(graph, outputs[0], NULL));

            char *text = printed(graph);
            assert_round_trip(graph);
            again = parsed(text);
            assert_true(rlx_attrs_equal((rlx_op)op, attrs.bytes, again->nodes.items[0].attrs));
            assert_int_equal(in_count, again->nodes.items[0].input_count);
            rlx_string_free(NULL, text);
            rlx_graph_destroy(again);
            rlx_graph_destroy(graph);
        }
    }
}

/* The bytes of constant 0 after printing and parsing. */
static void assert_data_survives(rlx_dtype dtype, const void *data, uint64_t count) {
    rlx_graph *graph = NULL, *again = NULL;
    rlx_value_id value;
    uint64_t bytes = 0;
    rlx_shape shape = {.rank = 1, .dims = {(int64_t)count}};
    assert_ok(rlx_dtype_bytes(dtype, count, &bytes));
    assert_ok(rlx_graph_create(NULL, &graph));
    assert_ok(rlx_graph_add_constant(graph, "c", dtype, shape, data, bytes, &value));
    char *text = printed(graph);
    again = parsed(text);
    assert_memory_equal(data, again->values.items[0].data, bytes);
    rlx_string_free(NULL, text);
    rlx_graph_destroy(graph);
    rlx_graph_destroy(again);
}

static void every_pattern_of_two_bytes_reads_back_to_the_same_bits(void **state) {
    (void)state;
    uint16_t all[65536];
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    assert_data_survives(RLX_DTYPE_I16, all, 65536);
    assert_data_survives(RLX_DTYPE_U16, all, 65536);
    for (uint32_t i = 0x7c01; i < 0x8000; i++) /* one NaN stands for all */
        all[i] = all[i + 0x8000] = 0x7e00;
    assert_data_survives(RLX_DTYPE_F16, all, 65536);
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (i & 0x7fff) > 0x7f80 ? 0x7fc0 : (uint16_t)i;
    assert_data_survives(RLX_DTYPE_BF16, all, 65536);
}

static void every_pattern_of_one_byte_reads_back_to_the_same_bits(void **state) {
    (void)state;
    uint8_t all[256], some[256];
    for (uint32_t i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    assert_data_survives(RLX_DTYPE_I8, all, 256);
    assert_data_survives(RLX_DTYPE_U8, all, 256);
    assert_data_survives(RLX_DTYPE_I4, all, 512);
    assert_data_survives(RLX_DTYPE_U4, all, 512);
    assert_data_survives(RLX_DTYPE_Q4_0, all, 32 * 14);
    assert_data_survives(RLX_DTYPE_Q6_K, all, 256);
    const rlx_dtype kinds[] = {RLX_DTYPE_F8E4M3FN, RLX_DTYPE_F8E4M3FNUZ, RLX_DTYPE_F8E5M2,
                               RLX_DTYPE_F8E5M2FNUZ};
    for (uint32_t k = 0; k < 4; k++) {
        float values[256];
        assert_ok(rlx_convert_to_f32(kinds[k], values, all, 256));
        for (uint32_t i = 0; i < 256; i++)
            values[i] = values[i] != values[i] ? NAN : values[i];
        assert_ok(rlx_convert_from_f32(kinds[k], some, values, 256)); /* NaNs become one */
        assert_data_survives(kinds[k], some, 256);
    }
}

static void random_wide_numbers_read_back_to_the_same_bits(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(5);
    double f64[2048];
    float f32[2048];
    uint64_t whole[2048];
    for (uint32_t i = 0; i < 2048; i++) {
        uint64_t bits = rlx_test_next(&random);
        uint32_t half = (uint32_t)(bits >> 7);
        whole[i] = bits;
        memcpy(&f64[i], &bits, 8);
        memcpy(&f32[i], &half, 4);
        if (f64[i] != f64[i]) f64[i] = (double)i / 7;
        if (f32[i] != f32[i]) f32[i] = (float)i / 7;
    }
    assert_data_survives(RLX_DTYPE_F64, f64, 2048);
    assert_data_survives(RLX_DTYPE_F32, f32, 2048);
    assert_data_survives(RLX_DTYPE_I64, whole, 2048);
    assert_data_survives(RLX_DTYPE_U64, whole, 2048);
    assert_data_survives(RLX_DTYPE_I32, whole, 2048);
    assert_data_survives(RLX_DTYPE_U32, whole, 2048);
}

static void free_layout_means_the_same(void **state) {
    (void)state;
    rlx_graph *graph = parsed("\n# a comment\r\n  rlx 1 # version\n"
                              "input x: f32[ 2,\n  2 ]\r\n"
                              "const c : f32[] = 0x1.8p3\n"
                              "const d : f32[2] = [ +1 ,\n 2e0, ]\n\n"
                              "output x");
    char *text = printed(graph);
    assert_string_equal(text, "rlx 1\ninput x : f32[2, 2]\nconst c : f32[] = [12]\n"
                              "const d : f32[2] = [1, 2]\noutput x\n");
    rlx_string_free(NULL, text);
    rlx_graph_destroy(graph);
}

static void types_are_printed_when_asked_for(void **state) {
    (void)state;
    rlx_graph *graph = parsed("rlx 1\ninput x : f32[1, 4]\ny = relu(x)\noutput y\n");
    char *text = NULL;
    assert_ok(rlx_graph_print_options(graph, RLX_PRINT_TYPES, &text));
    assert_text_has(text, "y = relu(x) # f32[1, 4]\n");
    rlx_string_free(NULL, text);
    rlx_graph_destroy(graph);
}

static void long_data_is_cut_when_asked_for(void **state) {
    (void)state;
    int32_t data[40] = {0};
    rlx_graph *graph = NULL;
    rlx_value_id value;
    char *text = NULL;
    rlx_shape shape = {.rank = 1, .dims = {40}};
    assert_ok(rlx_graph_create(NULL, &graph));
    assert_ok(rlx_graph_add_constant(graph, "c", RLX_DTYPE_I32, shape, data, 160, &value));
    assert_ok(rlx_graph_print_options(graph, RLX_PRINT_SHORT, &text));
    assert_text_has(text, "0, 0, ...]\n");
    rlx_string_free(NULL, text);
    rlx_graph_destroy(graph);
}

static void errors_say_line_and_column(void **state) {
    (void)state;
    assert_refused("", "line 1, column 1: expected 'rlx 1' as the first line, found the end");
    assert_int_equal(1, rlx_last_error_detail()->line);
    assert_refused("rlx 2\n", "line 1, column 5: version 2 of the format is not known");
    assert_refused("rlx 1\ninput x : f32[N]\n",
                   "line 2, column 15: unknown symbol 'N'; declare it before");
    assert_int_equal(2, rlx_last_error_detail()->line);
    assert_refused("rlx 1\ninput x : f32[2]\n\ny = matmull(x, x)\n",
                   "line 4, column 5: unknown op 'matmull' (did you mean 'matmul'?)");
    assert_refused("rlx 1\ninput x : f3[2]\n", "unknown dtype 'f3' (did you mean 'f32'?)");
    assert_refused("rlx 1\ny = relu(z)\n", "line 2, column 10: 'z' is not defined before");
    assert_refused("rlx 1\ninput x : f32[2]\ny = relu(x) gamma=2\n",
                   "line 3, column 13: relu has no attribute 'gamma'; it has: alpha, beta");
    assert_refused("rlx 1\ninput x : f32[2]\ny = relu(x, x)\n", "relu takes 1 inputs, got 2");
    assert_refused("rlx 1\ninput x : f32[2]\ny = relu(x) alpha=1 alpha=2\n",
                   "alpha is given twice");
    assert_refused("rlx 1\ninput x : f32[2] y\n", "expected the end of the line, found 'y'");
    assert_refused("rlx 1\ninput input : f32[2]\n", "'input' is a word of the format");
    assert_refused("rlx 1\ninput x : f32[2\n", "expected ','");
    assert_refused("rlx 1\n}\n", "line 2, column 1: expected a name, found '}'");
    assert_refused("rlx 1\n@\n", "unexpected character '@'");
    assert_refused("rlx 1\n\x01\n", "unexpected byte 0x01");
    assert_refused("rlx 1\ninput \"x : f32[2]\n", "no closing '\"'");
    assert_refused("rlx 1\ninput \"\\q\" : f32[2]\n", "unknown escape");
    assert_refused("rlx 1\ninput \"\\x00\" : f32[2]\n", "must not contain \\x00");
    assert_refused("rlx 1\ninput \"\" : f32[2]\n", "a name must not be empty");
}

static void data_that_does_not_fit_is_refused(void **state) {
    (void)state;
    assert_refused("rlx 1\nconst c : f32[3] = [1, 2]\n", "expected 3 elements, got 2");
    assert_refused("rlx 1\nconst c : f32[2] = [1, 2, 3]\n", "expected 2 elements, got more");
    assert_refused("rlx 1\nconst c : i8[1] = [128]\n", "'128' does not fit i8");
    assert_refused("rlx 1\nconst c : i4[1] = [-9]\n", "'-9' does not fit i4");
    assert_refused("rlx 1\nconst c : u8[1] = [-1]\n", "'-1' does not fit u8");
    assert_refused("rlx 1\nconst c : i32[1] = [1.5]\n", "'1.5' does not fit i32");
    assert_refused("rlx 1\nconst c : f16[1] = [65536]\n", "'65536' does not fit f16");
    assert_refused("rlx 1\nconst c : bool[1] = [2]\n", "'2' does not fit bool");
    assert_refused("rlx 1\nconst c : f64[1] = [1e999]\n", "expected a number, found '1e999'");
    assert_refused("rlx 1\nconst c : f32[1000000000000] = [1]\n",
                   "expected 1000000000000 elements, the text ends before");
    assert_refused("rlx 1\nconst c : f32[1] = hex(\"0000\")\n", "expected 4 bytes");
    assert_refused("rlx 1\nconst c : f32[1] = hex(\"0000000g\")\n", "byte 3 is not two hex");
    assert_refused("rlx 1\nconst c : q8_0[32] = [1]\n", "is written as hex");
    assert_refused("rlx 1\nsymbol N\nconst c : f32[N] = [1]\n", "needs a shape of numbers");
}

static void limits_are_said_with_their_numbers(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    assert_refused("rlx 1\ninput x : f32[1,1,1,1,1,1,1,1,1]\n", "more than 8 dims");
    assert_refused("rlx 1\ninput x : f32[-1]\n", "a dim must not be negative");
    assert_refused("rlx 1\ninput x : f32[99999999999999999999]\n", "an integer of 64 bits");
    assert_refused("rlx 1\ninput x : f32[2]\n"
                   "y = transpose(x) perm=[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]\n",
                   "more than 16 integers");
    assert_status(RLX_PARSE, rlx_graph_parse(NULL, "", UINT64_C(1) << 31, &graph));
    assert_error_has("a text of 2147483648 bytes; at most 1073741824");
}

static void blocks_nest_to_a_limit(void **state) {
    (void)state;
    char text[16384] = "rlx 1\ninput c : bool[]\n";
    for (uint32_t i = 0; i < 70; i++)
        strcat(text, "if(c) {\n");
    assert_refused(text, "blocks are nested deeper than 64");
}

static void names_of_a_block_end_with_it(void **state) {
    (void)state;
    assert_refused("rlx 1\nsymbol N\ninput c : bool[N]\n"
                   "y = if(c) {\n a = not(c)\n yield a\n} else {\n yield a\n}\n",
                   "line 8, column 8: 'a' is defined in a block that has ended");
    assert_refused("rlx 1\nsymbol N\ninput c : bool[N]\n"
                   "y = if(c) {\n input z : f32[]\n yield a\n} else {\n yield a\n}\n",
                   "line 5, column 2: 'input' must stand outside blocks");
    assert_refused("rlx 1\nsymbol N\ninput c : bool[N]\n"
                   "y = loop(c, c, c) (i) {\n yield c\n}\n",
                   "the block of this loop has 2 inputs, got 1");
}

static void graph_failures_carry_the_line(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    const char *text = "rlx 1\ninput x : f32[2]\n\ninput x : f32[2]\n";
    assert_status(RLX_INVALID_GRAPH, rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_error_has("line 4: ");
    assert_int_equal(4, rlx_last_error_detail()->line);
}

static void npy_needs_a_file(void **state) {
    (void)state;
    assert_refused("rlx 1\nparam w : f32[2] = npy(\"w.npy\")\n",
                   "line 2, column 20: npy(\"w.npy\") can only be read as part of a .rlx file");
}

static void made_up_names_do_not_collide(void **state) {
    (void)state;
    assert_reads_back("rlx 1\nsymbol N\ninput %3 : bool[N]\ninput %4 : i64[N]\n"
                      "%1, %2 = loop(%4, %3, %3) (%5, %6) {\n    %7 = not(%6)\n"
                      "    yield %3, %7, %5\n}\noutput %1\n");
}

static rlx_status parse_body(const rlx_allocator *allocator, void *argument) {
    rlx_graph *graph = NULL;
    char *text = NULL;
    RLX_TRY(rlx_graph_parse(allocator, argument, strlen(argument), &graph));
    rlx_status status = rlx_graph_print(graph, &text);
    if (status == RLX_OK) rlx_string_free(allocator, text);
    rlx_graph_destroy(graph);
    return status;
}

static void parse_and_print_survive_every_failed_allocation(void **state) {
    (void)state;
    const char *names[] = {"declarations", "nodes", "flow"};
    for (uint32_t i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "../golden/text/%s.rlx", names[i]);
        char *text = rlx_test_read_file(path, NULL);
        assert_true(rlx_test_every_allocation_fails(parse_body, text) > 5);
        free(text);
    }
}

static void a_long_text_takes_no_quadratic_time(void **state) {
    (void)state;
    /* 200,000 nodes, each using the one before: hours if anything scanned them all. */
    uint32_t count = 200000;
    char *text = malloc(64 * (size_t)count);
    size_t length = (size_t)sprintf(text, "rlx 1\nsymbol N\ninput v0 : f32[N]\n");
    for (uint32_t i = 1; i <= count; i++)
        length += (size_t)sprintf(text + length, "v%u = neg(v%u)\n", i, i - 1);
    rlx_graph *graph = NULL;
    assert_ok(rlx_graph_parse(NULL, text, length, &graph));
    char *again = printed(graph);
    assert_string_equal(text, again);
    rlx_string_free(NULL, again);
    rlx_graph_destroy(graph);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_files_print_as_they_stand),
        cmocka_unit_test(every_op_keeps_its_attributes),
        cmocka_unit_test(every_pattern_of_two_bytes_reads_back_to_the_same_bits),
        cmocka_unit_test(every_pattern_of_one_byte_reads_back_to_the_same_bits),
        cmocka_unit_test(random_wide_numbers_read_back_to_the_same_bits),
        cmocka_unit_test(free_layout_means_the_same),
        cmocka_unit_test(types_are_printed_when_asked_for),
        cmocka_unit_test(long_data_is_cut_when_asked_for),
        cmocka_unit_test(errors_say_line_and_column),
        cmocka_unit_test(data_that_does_not_fit_is_refused),
        cmocka_unit_test(limits_are_said_with_their_numbers),
        cmocka_unit_test(blocks_nest_to_a_limit),
        cmocka_unit_test(names_of_a_block_end_with_it),
        cmocka_unit_test(graph_failures_carry_the_line),
        cmocka_unit_test(npy_needs_a_file),
        cmocka_unit_test(made_up_names_do_not_collide),
        cmocka_unit_test(parse_and_print_survive_every_failed_allocation),
        cmocka_unit_test(a_long_text_takes_no_quadratic_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
