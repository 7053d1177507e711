/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of the rlx command share: exit codes, messages, argument lists, JSON text, opening
 * a model. Results go to stdout, messages to stderr. */
#ifndef RLX_TOOLS_TOOL_H
#define RLX_TOOLS_TOOL_H

#include <rlx/rlx.h>

#include <stdio.h>

enum {
    TOOL_OK = 0,
    TOOL_FAILED = 1,
    TOOL_USAGE = 2,
    TOOL_UNSUPPORTED = 3,
    TOOL_DOES_NOT_FIT = 4,
    TOOL_DIFFERS = 5,
    TOOL_INTERRUPTED = 130
};

/* A verb gets the arguments after it (argv[0] is the verb itself) and returns an exit code. */
int rlx_cmd_devices(int argc, char **argv);
int rlx_cmd_inspect(int argc, char **argv);
int rlx_cmd_ops(int argc, char **argv);
int rlx_cmd_plan(int argc, char **argv);
int rlx_cmd_place(int argc, char **argv);
int rlx_cmd_compile(int argc, char **argv);
int rlx_cmd_run(int argc, char **argv);
int rlx_cmd_diff(int argc, char **argv);
int rlx_cmd_bench(int argc, char **argv);
int rlx_cmd_check(int argc, char **argv);
int rlx_cmd_demo(int argc, char **argv);
int rlx_cmd_launch(int argc, char **argv);

/* Prints "rlx VERB: text of the last error" and gives the exit code for the status. The text is
 * that of tool_error, if it was called, or else the library's; of a model that is not supported
 * every node. */
int tool_fail(const char *verb, rlx_status status);
int tool_exit_code(rlx_status status);
/* Keeps a text for tool_fail and returns the status. */
rlx_status tool_error(rlx_status status, const char *format, ...) RLX_PRINTF(2, 3);

/* Options of a verb. A flag takes no value; the rest take one ("--name V" or "--name=V"). */
typedef enum tool_option_kind {
    TOOL_FLAG,   /* bool */
    TOOL_TEXT,   /* const char * */
    TOOL_NUMBER, /* uint64_t; K, M, G may follow */
    TOOL_MANY    /* tool_list: may be given again and again */
} tool_option_kind;

enum { TOOL_LIST_MOST = 64 };
typedef struct tool_list {
    const char *items[TOOL_LIST_MOST];
    uint32_t count;
} tool_list;

typedef struct tool_option {
    const char *name; /* "--device"; also "-o" */
    tool_option_kind kind;
    void *target;
    const char *value_name; /* in the help: "NAME" */
    const char *help;
} tool_option;

typedef struct tool_usage {
    const char *verb, *arguments, *about;
    const tool_option *options;
    uint32_t option_count;
    uint32_t least_arguments, most_arguments;
} tool_usage;

/* Reads the arguments; the positional ones go to `positional`. True: go on; else
 * *out_code is what the verb returns (help was printed, or a message). */
bool tool_parse(const tool_usage *usage, int argc, char **argv, const char **positional,
                int *out_code);

/* The flags that every verb understands. */
typedef struct tool_common {
    bool quiet, verbose, json;
} tool_common;
#define TOOL_COMMON_OPTIONS(common)                                      \
    {"-q", TOOL_FLAG, &(common).quiet, NULL, "only results and errors"}, \
        {"-v", TOOL_FLAG, &(common).verbose, NULL, "say more"}, {        \
        "--json", TOOL_FLAG, &(common).json, NULL, "results as JSON"     \
    }
/* Sends the library's log to stderr: warnings, or more with -v. */
void tool_log(const tool_common *common);

/* "text" with JSON escapes, quotes included. */
void tool_json_text(FILE *out, const char *text);
/* A name from a file, fit for a terminal, in a buffer that the next calls reuse in turn. */
const char *tool_name(const char *name);
/* "12.3 MB", likewise. */
const char *tool_bytes(uint64_t bytes);
/* "f32[1, S, 4]", likewise. `graph` names symbols and may be NULL. */
const char *tool_type(const rlx_graph *graph, rlx_dtype dtype, const rlx_shape *shape);

/* Whether a file is a saved program rather than a model. */
bool tool_is_program(const char *path);

/* --bind SYM=N .. (or another option like it) into bindings; false with a message. */
bool tool_bindings(const char *verb, const char *option, const tool_list *list,
                   rlx_binding *out_bindings, uint32_t *out_count);
/* Zeroed memory that lives as long as the process; NULL without memory. */
void *tool_keep(size_t bytes);
/* "NAME=VALUE" split in a copy that lives as long as the process; false when there is no '='. */
bool tool_split(const char *text, const char **out_name, const char **out_value);

/* --disable PASS.. into the options' mask; false with a message. */
bool tool_disable(const char *verb, const tool_list *passes, rlx_compile_options *options);

/* Where to run and how to compile: the options that plan, compile, run, diff and bench share. */
typedef struct tool_model {
    const char *path, *device;
    uint64_t threads, search_ms, memory_limit, weights_budget;
    uint64_t ranks; /* 0, 1: alone */
    tool_list binds, growths, disabled, entries, givens;
    bool without_reuse, keep_inputs;
    /* filled by tool_model_begin */
    rlx_binding bindings[TOOL_LIST_MOST], growing[TOOL_LIST_MOST];
    uint32_t growing_count;
    rlx_given_value given[2 * TOOL_LIST_MOST]; /* from --given, then from --input */
    uint32_t given_count;
    rlx_entry_spec entry;   /* the only one, where no --entry was given */
    rlx_entry_spec *listed; /* the entries of --entry; live as long as the process */
    rlx_compile_options options;
} tool_model;
#define TOOL_MODEL_OPTIONS(model)                                                                 \
    {"--device", TOOL_TEXT, &(model).device, "NAME", "where it runs (see rlx devices); cpu"},     \
        {"--threads", TOOL_NUMBER, &(model).threads, "N", "CPU threads; 0: all there are"},       \
        {"--bind", TOOL_MANY, &(model).binds, "SYM=N",                                            \
         "the size of a symbolic dim; again for more"},                                           \
        {"--grow", TOOL_MANY, &(model).growths, "SYM=N",                                          \
         "a size that grows from run to run, to N at most (ONNX)"},                               \
        {"--given", TOOL_MANY, &(model).givens, "NAME=F.npy",                                     \
         "the value of an input that decides shapes (ONNX)"},                                     \
        {"--disable", TOOL_MANY, &(model).disabled, "PASS", "leave out a pass, or all"},          \
        {"--search-ms", TOOL_NUMBER, &(model).search_ms, "MS", "search for a smaller placement"}, \
        {"--without-reuse", TOOL_FLAG, &(model).without_reuse, NULL,                              \
         "give every value memory of its own"},                                                   \
        {"--keep-inputs", TOOL_FLAG, &(model).keep_inputs, NULL, "inputs survive a run"}, {       \
        "--memory-limit", TOOL_NUMBER, &(model).memory_limit, "BYTES",                            \
            "exit 4 if the arena is larger; K, M, G may follow"                                   \
    }
/* For verbs that show or run a split of the weights. */
#define TOOL_BUDGET_OPTION(model)                                                     \
    {                                                                                 \
        "--weights-budget", TOOL_NUMBER, &(model).weights_budget, "BYTES",            \
            "memory for weights; the rest is read from the program file during a run" \
    }
/* For verbs that split a model over ranks. */
#define TOOL_RANKS_OPTION(model) \
    { "--ranks", TOOL_NUMBER, &(model).ranks, "N", "split the model over so many ranks" }
/* For verbs that make programs of several entries. */
#define TOOL_ENTRY_OPTION(model)                                                         \
    {                                                                                    \
        "--entry", TOOL_MANY, &(model).entries, "NAME:SYM=N,..",                         \
            "an entry with its own sizes; again for more, which share weights and state" \
    }
/* Offers a .npy file as the value of an input while compiling (rlx_given_value). The data is read
 * where it is small enough to decide shapes. */
rlx_status tool_give(tool_model *model, const char *name, const char *path);
/* The bytes of a .npy file's data; freed by the caller. */
rlx_status tool_read_npy(const char *path, const rlx_npy_info *info, void **out_data);
/* Checks and gathers them; environment settings fill what was not given. *out_code is TOOL_OK, or
 * with false what to exit with. */
bool tool_model_begin(const char *verb, tool_model *model, int *out_code);
rlx_status tool_open_device(const tool_model *model, rlx_device **out_device);
/* The plan of a model or saved program, made without a device; RLX_DOES_NOT_FIT past the limit. */
rlx_status tool_open_plan(tool_model *model, rlx_plan **out_plan);
/* A program from a model file (compiled) or from a saved program (loaded). */
rlx_status tool_open_program(tool_model *model, rlx_device *device, rlx_program **out_program);

#endif
