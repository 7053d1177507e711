/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input through files and data: each gives a status, and a text that names file, line or node
 * and what was expected; nothing half-written is left behind, and what was there stays. */
#include "session/subject.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    rlx_test_folder folder;
    rlx_device *device;
} fixture;

static int set_up(void **state) {
    static fixture self;
    rlx_test_folder_create(&self.folder);
    self.device = subject_device("cpu", 2);
    *state = &self;
    return 0;
}

static int tear_down(void **state) {
    fixture *self = *state;
    rlx_device_release(self->device);
    rlx_test_folder_remove(&self->folder);
    return 0;
}

/* A NumPy array file with this header text. */
static void write_npy(const char *path, const char *header, const void *data, size_t bytes) {
    char file[512] = "\x93NUMPY\x01";
    size_t length = strlen(header), padded = (10 + length + 1 + 63) / 64 * 64;
    assert_true(padded + bytes <= sizeof file);
    file[8] = (char)((padded - 10) & 0xff);
    file[9] = (char)((padded - 10) >> 8);
    memset(file + 10, ' ', padded - 10);
    memcpy(file + 10, header, length);
    file[padded - 1] = '\n';
    memcpy(file + padded, data, bytes);
    rlx_test_write_file(path, file, padded + bytes);
}

typedef struct bad_model {
    const char *text;
    rlx_status status;
    uint32_t line;        /* that the text names; 0: none */
    const char *parts[3]; /* of the text; NULL: no more */
} bad_model;

/* What goes wrong when the file is opened, with line and reason. */
static const bad_model unreadable[] = {
    {"", RLX_UNSUPPORTED, 0, {"known are"}},
    {"no model at all\n", RLX_PARSE, 1, {"rlx"}},
    {"rlx 99\n", RLX_PARSE, 1, {"99"}},
    {"rlx 1\ninput x : f33[2]\noutput x\n", RLX_PARSE, 2, {"f33"}},
    {"rlx 1\ninput x : f32[2\noutput x\n", RLX_PARSE, 3, {"output"}},
    {"rlx 1\ninput x : f32[2, -3]\noutput x\n", RLX_PARSE, 2, {"-3"}},
    {"rlx 1\ninput x : f32[M]\noutput x\n", RLX_PARSE, 2, {"M"}},
    {"rlx 1\ninput x : f32[2]\ny = frobnicate(x)\noutput y\n", RLX_PARSE, 3, {"frobnicate"}},
    {"rlx 1\ninput x : f32[2]\n\ny = softmax(x) axle=1\noutput y\n", RLX_PARSE, 4, {"axle"}},
    {"rlx 1\ninput x : f32[2]\ny = relu(x\n", RLX_PARSE, 0, {")"}},
    {"rlx 1\ninput x : f32[2]\ninput x : f32[2]\noutput x\n", RLX_INVALID_GRAPH, 3, {"'x'"}},
    {"rlx 1\nconst c : f32[3] = [1, 2]\noutput c\n", RLX_PARSE, 2, {"3"}},
    {"rlx 1\nconst c : u8[1] = [256]\noutput c\n", RLX_PARSE, 2, {"256", "u8"}},
    {"rlx 1\nconst c : f32[99999999999, 99999999999] = [1]\noutput c\n",
     RLX_OUT_OF_BOUNDS,
     2,
     {NULL}},
    /* A cycle can only be written as a use before the definition. */
    {"rlx 1\ninput x : f32[2]\na = add(b, x)\nb = add(a, x)\noutput b\n", RLX_PARSE, 3, {"b"}},
    {"rlx 1\ninput x : f32[2]\na = add(a, x)\noutput a\n", RLX_PARSE, 3, {"a"}},
    {"rlx 1\ninput x : f32[2]\noutput z\n", RLX_PARSE, 3, {"z"}},
    /* Ill-typed: the rule and both sides. */
    {"rlx 1\ninput a : f32[2, 3]\ninput b : f32[4, 5]\ny = matmul(a, b)\noutput y\n",
     RLX_INVALID_GRAPH,
     4,
     {"matmul", "3", "4"}},
    {"rlx 1\ninput a : f32[2]\ninput b : f32[3]\ny = add(a, b)\noutput y\n",
     RLX_INVALID_GRAPH,
     4,
     {"add"}},
    {"rlx 1\ninput a : f32[2]\ninput b : i32[2]\ny = add(a, b)\noutput y\n",
     RLX_INVALID_GRAPH,
     4,
     {"f32", "i32"}},
    {"rlx 1\ninput a : f32[2, 3]\ny = reshape(a) shape=[4, 2]\noutput y\n",
     RLX_INVALID_GRAPH,
     3,
     {"reshape"}},
    {"rlx 1\ninput a : f32[2]\ny = add(a)\noutput y\n", RLX_PARSE, 3, {"add", "2"}},
    {"rlx 1\ninput c : f32[]\ny = if(c) {\nyield c\n} else {\nyield c\n}\noutput y\n",
     RLX_INVALID_GRAPH,
     0,
     {"condition", "bool"}},
    {"rlx 1\ninput c : f32[]\ny = if(_) {\nyield c\n} else {\nyield c\n}\noutput y\n",
     RLX_INVALID_GRAPH,
     0,
     {"no condition"}},
    {"rlx 1\ninput k : f32[4, 2]\ninput p : i64[]\ny, n = state_write(k, k, p)\noutput y\n",
     RLX_INVALID_GRAPH,
     0,
     {"needs a state"}},
    /* Files that weights come from. */
    {"rlx 1\nparam w : f32[4] = npy(\"missing.npy\")\noutput w\n",
     RLX_IO,
     2,
     {"'w'", "missing.npy", "No such file"}},
    {"rlx 1\n\nparam w : f32[5] = npy(\"four.npy\")\noutput w\n",
     RLX_MISMATCH,
     3,
     {"four.npy", "4", "5"}},
    {"rlx 1\nparam w : i32[4] = npy(\"four.npy\")\noutput w\n",
     RLX_MISMATCH,
     2,
     {"four.npy", "f32", "i32"}},
    {"rlx 1\nparam w : f32[4] = npy(\"short.npy\")\noutput w\n", RLX_IO, 2, {"short.npy"}},
    {"rlx 1\nparam w : f32[4] = npy(\"junk.npy\")\noutput w\n", RLX_PARSE, 2, {"junk.npy"}},
    {"rlx 1\nparam w : f32[4] = npy(\"columns.npy\")\noutput w\n",
     RLX_UNSUPPORTED,
     2,
     {"columns.npy"}},
    {"rlx 1\nparam w : f32[4] = file(\"four.npy\", 1000)\noutput w\n",
     RLX_OUT_OF_BOUNDS,
     2,
     {"four.npy", "1000"}},
    {"rlx 1\nparam w : f32[4] = file(\"missing.bin\", 0)\noutput w\n",
     RLX_IO,
     2,
     {"missing.bin", "No such file"}},
    {"rlx 1\nparam w : f32[4] = npy(\".\")\noutput w\n", RLX_IO, 2, {"'w'"}},
};

static bool is_as_expected(const char *what, const bad_model *expected, rlx_status status,
                           const char *path) {
    char text[RLX_ERROR_TEXT_BYTES], line[32];
    bool is_good = status == expected->status;
    snprintf(text, sizeof text, "%s", status == RLX_OK ? "" : rlx_last_error());
    snprintf(line, sizeof line, "line %u", expected->line);
    is_good &= path == NULL || strstr(text, path) != NULL;
    is_good &= expected->line == 0 || strstr(text, line) != NULL;
    is_good &= expected->line == 0 || rlx_last_error_detail()->line == expected->line;
    for (uint32_t i = 0; i < 3 && expected->parts[i] != NULL; i++)
        is_good &= strstr(text, expected->parts[i]) != NULL;
    if (is_good) return true;
    print_error("%s\n  expected '%s', line %u, '%s' '%s' '%s'\n  got '%s': %s\n", what,
                rlx_status_text(expected->status), expected->line,
                expected->parts[0] ? expected->parts[0] : "",
                expected->parts[1] ? expected->parts[1] : "",
                expected->parts[2] ? expected->parts[2] : "", rlx_status_text(status), text);
    return false;
}

static void files_that_cannot_be_read_say_where_and_why(void **state) {
    fixture *self = *state;
    const float four[4] = {1, 2, 3, 4};
    unsigned bad = 0;
    const char *head = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
    write_npy(rlx_test_path(&self->folder, "four.npy"), head, four, sizeof four);
    write_npy(rlx_test_path(&self->folder, "short.npy"), head, four, 9);
    write_npy(rlx_test_path(&self->folder, "columns.npy"),
              "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", four, sizeof four);
    rlx_test_write_file(rlx_test_path(&self->folder, "junk.npy"), "not numpy at all", 16);
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        rlx_session *session = NULL;
        char path[300];
        snprintf(path, sizeof path, "%s",
                 rlx_test_path(&self->folder, i == 0 ? "model.txt" : "model.rlx"));
        rlx_test_write_file(path, unreadable[i].text, strlen(unreadable[i].text));
        rlx_status status = rlx_session_open(NULL, path, &session);
        bad += !is_as_expected(unreadable[i].text, &unreadable[i], status, path);
        assert_null(session);
    }
    assert_int_equal(bad, 0);
}

static void a_model_that_is_not_there_is_named(void **state) {
    fixture *self = *state;
    rlx_session *session = NULL;
    assert_status(RLX_IO, rlx_session_open(NULL, rlx_test_path(&self->folder, "no.rlx"), &session));
    assert_error_has("no.rlx");
    assert_error_has("No such file");
    assert_status(RLX_IO, rlx_session_open(NULL, self->folder.path, &session));
    assert_error_has(self->folder.path);
    assert_status(RLX_INVALID_ARGUMENT, rlx_session_open(NULL, NULL, &session));
}

static rlx_status compile(fixture *self, const char *text, const rlx_compile_options *options,
                          rlx_program **out_program) {
    const char *path = rlx_test_path(&self->folder, "model.rlx");
    rlx_session *session = NULL;
    rlx_test_write_file(path, text, strlen(text));
    assert_ok(rlx_session_open(NULL, path, &session));
    rlx_status status = rlx_session_compile(session, self->device, options, NULL, out_program);
    rlx_session_destroy(session);
    return status;
}

typedef struct bad_binding {
    rlx_binding bindings[3];
    uint32_t count;
    rlx_status status;
    const char *part;
} bad_binding;

static void symbols_that_are_unknown_or_unbound_are_named(void **state) {
    static const char text[] =
        "rlx 1\nsymbol S\nsymbol T\ninput x : f32[S, 4]\ninput y : f32[T, 4]\n"
        "z = add(x, y)\noutput z\n";
    static const bad_binding cases[] = {
        {{{"S", 2}}, 1, RLX_INVALID_ARGUMENT, "'T'"},
        {{{"S", 2}, {"T", 2}, {"Q", 1}}, 3, RLX_NOT_FOUND, "'Q'"},
        {{{"S", 2}, {"T", -1}}, 2, RLX_INVALID_ARGUMENT, "'T' cannot be -1"},
        {{{"S", 2}, {"S", 3}, {"T", 1}}, 3, RLX_INVALID_ARGUMENT, "2 and 3"},
        {{{"S", 2}, {"T", 3}}, 2, RLX_INVALID_GRAPH, "'z'"},
        {{{"S", INT64_MAX}, {"T", 1}}, 2, RLX_OUT_OF_BOUNDS, "'x'"},
        {{{"S", 2}, {NULL, 3}}, 2, RLX_INVALID_ARGUMENT, "names no symbol"},
    };
    fixture *self = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rlx_entry_spec entry = {.bindings = cases[i].bindings, .binding_count = cases[i].count};
        rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
        rlx_program *program = NULL;
        bad_model expected = {.status = cases[i].status, .parts = {cases[i].part}};
        rlx_status status = compile(self, text, &options, &program);
        assert_true(is_as_expected(cases[i].part, &expected, status, NULL));
        assert_null(program);
    }
    rlx_entry_spec none = {.binding_count = 1};
    rlx_compile_options options = {.size = sizeof options, .entries = &none, .entry_count = 1};
    rlx_program *program = NULL;
    assert_status(RLX_INVALID_ARGUMENT, compile(self, text, &options, &program));
    options.disabled_passes = UINT64_MAX;
    assert_status(RLX_INVALID_ARGUMENT, compile(self, text, &options, &program));
}

static void growing_sizes_without_list_or_name_are_refused(void **state) {
    static const char text[] = "rlx 1\ninput x : f32[4]\ny = relu(x)\noutput y\n";
    fixture *self = *state;
    const rlx_binding unnamed = {NULL, 3};
    rlx_entry_spec entry = {.name = "decode", .growing_count = 1};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_program *program = NULL;
    assert_status(RLX_INVALID_ARGUMENT, compile(self, text, &options, &program));
    assert_error_has("growing sizes of entry 'decode' are null");
    entry.growing = &unnamed;
    assert_status(RLX_INVALID_ARGUMENT, compile(self, text, &options, &program));
    assert_error_has("growing size 0 of entry 'decode' names no symbol");
    assert_null(program);
}

static void weights_without_data_are_named(void **state) {
    fixture *self = *state;
    rlx_program *program = NULL;
    assert_status(RLX_NOT_FOUND,
                  compile(self,
                          "rlx 1\ninput x : f32[4]\nparam w : f32[4]\ny = add(x, w)\noutput y\n",
                          NULL, &program));
    assert_error_has("'w'");
}

/* The weights' file is cut off between the import and the program. */
static void weights_that_vanish_are_named(void **state) {
    static const char text[] =
        "rlx 1\nparam w : f32[4] = file(\"w.bin\", 0)\nv = neg(w)\noutput v\n";
    fixture *self = *state;
    char model[300], weights[300];
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    snprintf(model, sizeof model, "%s", rlx_test_path(&self->folder, "model.rlx"));
    snprintf(weights, sizeof weights, "%s", rlx_test_path(&self->folder, "w.bin"));
    rlx_test_write_file(model, text, strlen(text));
    rlx_test_write_file(weights, "0123456789abcdef", 16);
    assert_ok(rlx_session_open(NULL, model, &session));
    assert_int_equal(truncate(weights, 7), 0);
    assert_int_not_equal(rlx_session_compile(session, self->device, NULL, NULL, &program), RLX_OK);
    assert_error_has("'w'");
    assert_error_has("w.bin");
    assert_int_equal(unlink(weights), 0);
    assert_status(RLX_IO, rlx_session_compile(session, self->device, NULL, NULL, &program));
    assert_error_has("'w'");
    assert_error_has("No such file");
    rlx_session_destroy(session);
}

/* What only data can tell. Each run sets "x" and fails; with harmless data it works again. */
typedef struct fault {
    const char *text;
    int64_t bad, good;
    const char *parts[3];
} fault;

static void faults_name_the_node_the_code_and_the_value(void **state) {
    static const fault faults[] = {
        {"rlx 1\ninput x : i64[1]\nparam t : f32[5, 2] = seeded(1, 1)\n"
         "picked = gather(t, x) axis=0\noutput picked\n",
         5,
         -5,
         {"picked", "index out of range", "5"}},
        {"rlx 1\ninput x : i64[1]\nparam t : f32[5, 2] = seeded(1, 1)\n"
         "picked = gather(t, x) axis=0\nfirst = relu(picked)\nsecond = neg(first)\noutput second\n",
         -6,
         4,
         {"picked", "index out of range", "-6"}},
        {"rlx 1\ninput x : i64[1]\nconst ten : i64[1] = [10]\nquotient = div(ten, x)\n"
         "output quotient\n",
         0,
         3,
         {"quotient", "division by zero", "10"}},
        {"rlx 1\ninput x : i64[1]\nconst ten : i64[1] = [10]\nrest = mod(ten, x)\noutput rest\n",
         0,
         3,
         {"rest", "division by zero", NULL}},
        {"rlx 1\ninput x : i64[1]\nstate cache : f32[4, 2]\nconst rows : f32[2, 2] = [1, 2, 3, 4]\n"
         "at = reshape(x) shape=[]\nfull, length = state_write(cache, rows, at)\noutput length\n",
         3,
         2,
         {"full", "state written past its end", "3"}},
        {"rlx 1\ninput x : i64[1]\nstate cache : f32[4, 2]\nconst rows : f32[2, 2] = [1, 2, 3, 4]\n"
         "at = reshape(x) shape=[]\nfull, length = state_write(cache, rows, at)\noutput length\n",
         -1,
         0,
         {"full", "state written past its end", "-1"}},
        {"rlx 1\ninput x : i64[1]\nconst yes : bool[] = [true]\nn = reshape(x) shape=[]\n"
         "end, count = loop(n, yes, x) bound=3 (i, v) {\nw = add(v, v)\nyield yes, w\n}\n"
         "output end\n",
         4,
         3,
         {"end", "bound", NULL}},
    };
    fixture *self = *state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        rlx_program *program = NULL;
        rlx_exec *exec = NULL;
        const char *const *parts = faults[i].parts;
        bad_model expected = {.status = RLX_FAULT, .parts = {parts[0], parts[1], parts[2]}};
        rlx_output_info info;
        assert_ok(compile(self, faults[i].text, NULL, &program));
        assert_ok(rlx_exec_create(program, NULL, &exec));
        for (uint32_t turn = 0; turn < 2; turn++) {
            assert_ok(rlx_exec_set(exec, 0, "x", &faults[i].bad, sizeof(int64_t)));
            rlx_status status = rlx_exec_run(exec, 0);
            assert_true(is_as_expected(faults[i].text, &expected, status, NULL));
            assert_int_not_equal(rlx_exec_output(exec, 0, 0, &info), RLX_OK);
            assert_ok(rlx_exec_set(exec, 0, "x", &faults[i].good, sizeof(int64_t)));
            assert_ok(rlx_exec_run(exec, 0));
            assert_ok(rlx_exec_output(exec, 0, 0, &info));
        }
        rlx_exec_destroy(exec);
        rlx_program_release(program);
    }
}

/* The rest of a state stays what it was when a write does not fit. */
static void a_write_that_does_not_fit_changes_no_state(void **state) {
    static const char text[] = "rlx 1\ninput rows : f32[2]\ninput at : i64[]\nstate s : f32[4]\n"
                               "t, n = state_write(s, rows, at)\noutput n\n";
    fixture *self = *state;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    const float rows[2] = {7, 8};
    float held[4];
    uint32_t slot;
    assert_ok(compile(self, text, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_plan_find_slot(rlx_program_plan(program), "s", &slot));
    for (int64_t at = 2; at >= -1; at--) {
        if (at < 2 && at >= 0) continue;
        assert_ok(rlx_exec_set_f32(exec, 0, "rows", rows, 2));
        assert_ok(rlx_exec_set(exec, 0, "at", &at, sizeof at));
        assert_status(at == 2 ? RLX_OK : RLX_FAULT, rlx_exec_run(exec, 0));
        assert_ok(rlx_arena_read_f32(rlx_exec_arena(exec), slot, 0, held, 4, 0, NULL));
        assert_memory_equal(held, ((float[]){0, 0, 7, 8}), sizeof held);
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void wrong_inputs_are_named(void **state) {
    static const char text[] =
        "rlx 1\ninput x : f32[2, 2]\ninput y : f32[2]\nz = add(x, y)\noutput z\n";
    fixture *self = *state;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    float data[4] = {0};
    assert_ok(compile(self, text, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_status(RLX_NOT_FOUND, rlx_exec_set_f32(exec, 0, "xx", data, 4));
    assert_error_has("'xx'");
    assert_error_has("x, y");
    assert_status(RLX_LENGTH_MISMATCH, rlx_exec_set_f32(exec, 0, "x", data, 3));
    assert_error_has("'x' has 4 elements, got 3");
    assert_ok(rlx_exec_set_f32(exec, 0, "x", data, 4));
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_run(exec, 0));
    assert_error_has("'y'");
    assert_status(RLX_NOT_FOUND, rlx_exec_run(exec, 1));
    assert_ok(rlx_exec_set_f32(exec, 0, "y", data, 2));
    assert_ok(rlx_exec_run(exec, 0));
    assert_status(RLX_NOT_FOUND, rlx_exec_read_f32(exec, 0, "x", data, 4, NULL));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_exec_read_f32(exec, 0, "z", data, 3, NULL));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static const char saved_text[] =
    "rlx 1\ninput x : f32[8]\nparam w : f32[2048] = seeded(1, 1)\nstate s : f32[8]\n"
    "const zero : i64[] = [0]\nt, n = state_write(s, x, zero) wrap=true\nh = slice(w) "
    "starts=[1000] "
    "ends=[1008]\ny = mul(h, t)\noutput y\n";

static void foreign_and_damaged_program_files_are_refused(void **state) {
    fixture *self = *state;
    char path[300], other[300];
    rlx_program *program = NULL, *loaded = NULL;
    size_t bytes;
    assert_ok(compile(self, saved_text, NULL, &program));
    snprintf(path, sizeof path, "%s", rlx_test_path(&self->folder, "good.rlxp"));
    snprintf(other, sizeof other, "%s", rlx_test_path(&self->folder, "bad.rlxp"));
    assert_ok(rlx_program_save(program, path));
    char *file = rlx_test_read_file(path, &bytes);
    assert_ok(rlx_program_load(self->device, path, NULL, &loaded));
    rlx_program_release(loaded);
    loaded = NULL;
    for (size_t length = 0; length < bytes; length += length < 600 ? 37 : bytes / 23) {
        rlx_test_write_file(other, file, length);
        assert_int_not_equal(rlx_program_load(self->device, other, NULL, &loaded), RLX_OK);
        assert_error_has("bad.rlxp");
        assert_null(loaded);
    }
    rlx_test_write_file(other, saved_text, strlen(saved_text));
    assert_status(RLX_PARSE, rlx_program_load(self->device, other, NULL, &loaded));
    assert_error_has("bad.rlxp");
    assert_status(
        RLX_IO, rlx_program_load(self->device, rlx_test_path(&self->folder, "no"), NULL, &loaded));
    assert_error_has("No such file");
    /* A byte that is wrong is refused or harmless; it never ends the process. */
    for (size_t at = 0; at < bytes && at < 4096; at += 11) {
        char held = file[at];
        file[at] = (char)(held ^ 0x41);
        rlx_test_write_file(other, file, bytes);
        if (rlx_program_load(self->device, other, NULL, &loaded) == RLX_OK) {
            rlx_program_release(loaded);
            loaded = NULL;
        }
        file[at] = held;
    }
    free(file);
    rlx_program_release(program);
}

static void state_files_of_another_model_change_nothing(void **state) {
    fixture *self = *state;
    char path[300];
    rlx_program *one = NULL, *two = NULL;
    rlx_exec *first = NULL, *second = NULL;
    float held = 5, got = 0;
    uint32_t slot;
    snprintf(path, sizeof path, "%s", rlx_test_path(&self->folder, "state"));
    assert_ok(compile(self, saved_text, NULL, &one));
    assert_ok(compile(self,
                      "rlx 1\ninput x : f32[4]\nconst zero : i64[] = [0]\nstate q : f32[4]\n"
                      "y, n = state_write(q, x, zero)\noutput n\n",
                      NULL, &two));
    assert_ok(rlx_exec_create(one, NULL, &first));
    assert_ok(rlx_exec_create(two, NULL, &second));
    assert_ok(rlx_exec_save_state(first, path));
    assert_ok(rlx_plan_find_slot(rlx_program_plan(two), "q", &slot));
    assert_ok(rlx_arena_write_f32(rlx_exec_arena(second), slot, 1, &held, 1, 0, NULL));
    assert_status(RLX_MISMATCH, rlx_exec_restore_state(second, path));
    assert_error_has(path);
    rlx_test_write_file(path, "rlxstate", 8);
    assert_status(RLX_PARSE, rlx_exec_restore_state(second, path));
    rlx_test_write_file(path, "", 0);
    assert_status(RLX_PARSE, rlx_exec_restore_state(second, path));
    assert_status(RLX_IO, rlx_exec_restore_state(second, rlx_test_path(&self->folder, "none")));
    assert_error_has("none");
    assert_ok(rlx_arena_read_f32(rlx_exec_arena(second), slot, 1, &got, 1, 0, NULL));
    assert_true(got == held);
    rlx_exec_destroy(first);
    rlx_exec_destroy(second);
    rlx_program_release(one);
    rlx_program_release(two);
}

/* Saves program and state to `path`; both must fail with an input/output error that names it. */
static void assert_unwritable(rlx_program *program, rlx_exec *exec, const char *path,
                              const char *part) {
    assert_status(RLX_IO, rlx_program_save(program, path));
    assert_error_has(path);
    assert_error_has(part);
    assert_status(RLX_IO, rlx_exec_save_state(exec, path));
    assert_error_has(path);
    assert_error_has(part);
}

static void unwritable_paths_are_named_and_left_alone(void **state) {
    fixture *self = *state;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    struct stat before, after;
    assert_ok(compile(self, saved_text, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_unwritable(program, exec, rlx_test_path(&self->folder, "no/such/folder/file"),
                      "No such file");
    assert_unwritable(program, exec, self->folder.path, "directory");
    assert_unwritable(program, exec, "/dev/full", "not a regular file");
    if (geteuid() != 0) {
        assert_unwritable(program, exec, "/rlx-test-file", "denied");
    }
    assert_int_equal(stat("/dev/full", &before), 0);
    assert_int_equal(stat("/dev/full", &after), 0);
    assert_true(S_ISCHR(after.st_mode) && before.st_rdev == after.st_rdev);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

/* A limit on the size of files stands in for a full disk: write() fails in the middle. */
static void a_full_disk_leaves_the_old_file(void **state) {
    fixture *self = *state;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    struct rlimit limit, small;
    char saved[300], kept[300];
    snprintf(saved, sizeof saved, "%s", rlx_test_path(&self->folder, "full.rlxp"));
    snprintf(kept, sizeof kept, "%s", rlx_test_path(&self->folder, "kept.rlxp"));
    assert_ok(compile(self, saved_text, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    rlx_test_write_file(kept, "old", 3);
    unsigned entries = rlx_test_entry_count(self->folder.path);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    for (uint32_t i = 0; i < 6; i++) {
        static const rlim_t limits[] = {0, 1, 100, 4096, 5000, 8192};
        rlx_status status, kept_status, state_status;
        small.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        status = rlx_program_save(program, saved);
        kept_status = rlx_program_save(program, kept);
        state_status = limits[i] == 0 ? rlx_exec_save_state(exec, kept) : RLX_IO;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_status(RLX_IO, status);
        assert_status(RLX_IO, kept_status);
        assert_status(RLX_IO, state_status);
        assert_error_has("kept.rlxp");
        assert_int_equal(rlx_test_entry_count(self->folder.path), entries);
        size_t bytes;
        char *file = rlx_test_read_file(kept, &bytes);
        assert_int_equal(bytes, 3);
        assert_memory_equal(file, "old", 3);
        free(file);
    }
    signal(SIGXFSZ, handler);
    assert_ok(rlx_program_save(program, kept));
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void unknown_devices_are_refused(void **state) {
    rlx_device *device = NULL;
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    (void)state;
    assert_status(RLX_NOT_FOUND, rlx_device_open("gpu:9", NULL, &device));
    assert_error_has("gpu:9");
    assert_ok(rlx_session_open(NULL, "graphs/views.rlx", &session));
    assert_status(RLX_NOT_FOUND, rlx_session_plan(session, "abacus", 1, NULL, &plan));
    assert_error_has("abacus");
    rlx_session_destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_cannot_be_read_say_where_and_why),
        cmocka_unit_test(a_model_that_is_not_there_is_named),
        cmocka_unit_test(symbols_that_are_unknown_or_unbound_are_named),
        cmocka_unit_test(growing_sizes_without_list_or_name_are_refused),
        cmocka_unit_test(weights_without_data_are_named),
        cmocka_unit_test(weights_that_vanish_are_named),
        cmocka_unit_test(faults_name_the_node_the_code_and_the_value),
        cmocka_unit_test(a_write_that_does_not_fit_changes_no_state),
        cmocka_unit_test(wrong_inputs_are_named),
        cmocka_unit_test(foreign_and_damaged_program_files_are_refused),
        cmocka_unit_test(state_files_of_another_model_change_nothing),
        cmocka_unit_test(unwritable_paths_are_named_and_left_alone),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(unknown_devices_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
