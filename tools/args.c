/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a verb against its table of options, and the help that follows from the same table.
 */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void print_help(FILE *out, const tool_usage *usage) {
    fprintf(out, "usage: rlx %s %s\n\n%s\n", usage->verb, usage->arguments, usage->about);
    if (usage->option_count != 0) fputc('\n', out);
    for (uint32_t i = 0; i < usage->option_count; i++) {
        const tool_option *option = &usage->options[i];
        int width = fprintf(out, "  %s%s%s", option->name, option->value_name == NULL ? "" : " ",
                            option->value_name == NULL ? "" : option->value_name);
        fprintf(out, "%*s%s\n", width < 24 ? 24 - width : 1, "", option->help);
    }
    fputs(
        "\nExit: 0 ok, 1 failed, 2 usage, 3 unsupported model, 4 does not fit, 5 results differ,\n"
        "130 interrupted.\n",
        out);
}

static bool misuse(const tool_usage *usage, const char *what, const char *argument, int *out_code) {
    fprintf(stderr, "rlx %s: %s '%s'; rlx %s --help lists what there is\n", usage->verb, what,
            argument, usage->verb);
    *out_code = TOOL_USAGE;
    return false;
}

/* The option that an argument names, and the value behind its '='. */
static const tool_option *find_option(const tool_usage *usage, const char *argument,
                                      const char **out_value) {
    const char *equals = argument[0] == '-' && argument[1] == '-' ? strchr(argument, '=') : NULL;
    size_t length = equals == NULL ? strlen(argument) : (size_t)(equals - argument);
    *out_value = equals == NULL ? NULL : equals + 1;
    for (uint32_t i = 0; i < usage->option_count; i++) {
        const char *name = usage->options[i].name;
        if (strlen(name) == length && strncmp(name, argument, length) == 0) {
            return &usage->options[i];
        }
    }
    return NULL;
}

static bool read_number(const char *text, uint64_t *out_number) {
    char *end = NULL;
    uint64_t unit = 1;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || errno != 0 || text[0] == '-') return false;
    if (*end == 'K' || *end == 'k') unit = UINT64_C(1) << 10;
    if (*end == 'M') unit = UINT64_C(1) << 20;
    if (*end == 'G') unit = UINT64_C(1) << 30;
    if (unit != 1) end++;
    if (*end != 0 || number > UINT64_MAX / unit) return false;
    *out_number = number * unit;
    return true;
}

static bool take(const tool_usage *usage, const tool_option *option, const char *value,
                 int *out_code) {
    tool_list *list = option->target;
    switch (option->kind) {
    case TOOL_FLAG:
        *(bool *)option->target = true;
        return true;
    case TOOL_TEXT:
        *(const char **)option->target = value;
        return true;
    case TOOL_NUMBER:
        if (read_number(value, option->target)) return true;
        return misuse(usage, "not a number:", value, out_code);
    case TOOL_MANY:
        if (list->count == TOOL_LIST_MOST) {
            return misuse(usage, "too many times:", option->name, out_code);
        }
        list->items[list->count++] = value;
        return true;
    }
    return false;
}

bool tool_parse(const tool_usage *usage, int argc, char **argv, const char **positional,
                int *out_code) {
    uint32_t count = 0;
    bool options_over = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i], *value = NULL;
        if (!options_over && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)) {
            print_help(stdout, usage);
            *out_code = TOOL_OK;
            return false;
        }
        if (!options_over && strcmp(argument, "--") == 0) {
            options_over = true;
            continue;
        }
        if (options_over || argument[0] != '-' || argument[1] == 0) {
            if (count == usage->most_arguments) {
                return misuse(usage, "one argument too many:", argument, out_code);
            }
            positional[count++] = argument;
            continue;
        }
        const tool_option *option = find_option(usage, argument, &value);
        if (option == NULL) return misuse(usage, "unknown option", argument, out_code);
        if (option->kind == TOOL_FLAG && value != NULL) {
            return misuse(usage, "takes no value:", argument, out_code);
        }
        if (option->kind != TOOL_FLAG && value == NULL) {
            if (i + 1 == argc) return misuse(usage, "needs a value:", argument, out_code);
            value = argv[++i];
        }
        if (!take(usage, option, value, out_code)) return false;
    }
    if (count < usage->least_arguments) {
        print_help(stderr, usage);
        *out_code = TOOL_USAGE;
        return false;
    }
    return true;
}
