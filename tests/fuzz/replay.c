/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target as an ordinary test: every file of the corpus as it is, then a fixed number of
 * mutated ones, the same on every machine.
 *
 *     fuzz_text COUNT FOLDER_OR_FILE...
 */
#include "fuzz/fuzz.h"
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MAX_FILES = 4096, MAX_BYTES = 1 << 20 };

typedef struct seed_corpus {
    uint8_t *files[MAX_FILES];
    size_t sizes[MAX_FILES];
    uint32_t count;
} seed_corpus;

static void load_file(seed_corpus *corpus, const char *path) {
    size_t size = 0;
    if (corpus->count == MAX_FILES) return;
    corpus->files[corpus->count] = (uint8_t *)rlx_test_read_file(path, &size);
    corpus->sizes[corpus->count++] = size;
}

/* Folders in it too, where models stand beside their arrays: those are left out. */
static void load_folder(seed_corpus *corpus, const char *path, uint32_t depth) {
    struct dirent **entries = NULL;
    int count = depth < 4 ? scandir(path, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char file[1024];
        snprintf(file, sizeof file, "%s/%s", path, name);
        if (name[0] != '.' && entries[i]->d_type == DT_DIR) {
            load_folder(corpus, file, depth + 1);
        } else if (name[0] != '.' && (depth == 0 || strstr(name, "model.rlx") != NULL ||
                                      strstr(name, "model.onnx") != NULL)) {
            load_file(corpus, file);
        }
        free(entries[i]);
    }
    free(entries);
}

static void load(seed_corpus *corpus, const char *path) {
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode)) {
        if (facts.st_size < MAX_BYTES) load_file(corpus, path);
    } else {
        load_folder(corpus, path, 0);
    }
}

static size_t room(size_t size, size_t wanted) {
    return wanted < MAX_BYTES - size ? wanted : MAX_BYTES - size;
}

static size_t insert(uint8_t *data, size_t size, size_t at, const uint8_t *part, size_t bytes) {
    bytes = room(size, bytes);
    memmove(data + at + bytes, data + at, size - at);
    memcpy(data + at, part, bytes);
    return size + bytes;
}

static size_t insert_word(rlx_test_random *random, uint8_t *data, size_t size, size_t at) {
    static const char *const words[] = {
        "(",       ")",     "[",     "]",      "{",        "}",
        ",",       "=",     "\n",    "_",      "-1",       "\"",
        "\\x",     "nan",   "1e999", "0x",     "<=",       "?",
        "$0",      "%1",    " : ",   "f32[",   "q8_0",     "yield",
        "else",    "if(",   "loop(", "hex(",   "npy(\"",   "file(",
        "seeded(", "code=", "axis=", "const ", "input x ", "99999999999999999999",
        "#",       "i4[3]", "bool",  "output "};
    const char *word = words[rlx_test_below(random, sizeof words / sizeof words[0])];
    return insert(data, size, at, (const uint8_t *)word, strlen(word));
}

static size_t mutate_once(rlx_test_random *random, const seed_corpus *corpus, uint8_t *data,
                          size_t size) {
    size_t at = (size_t)rlx_test_below(random, size + 1);
    size_t length = (size_t)rlx_test_below(random, size - at + 1);
    uint32_t other = (uint32_t)rlx_test_below(random, corpus->count);
    uint8_t copy[256];
    if (length > sizeof copy) length = (size_t)rlx_test_below(random, sizeof copy);
    switch (rlx_test_below(random, 6)) {
    case 0: /* one bit */
        if (at < size) data[at] ^= (uint8_t)(1u << rlx_test_below(random, 8));
        return size;
    case 1: /* one byte */
        if (at < size) data[at] = (uint8_t)rlx_test_next(random);
        return size;
    case 2: /* a part goes */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 3: /* a part comes twice */
        memcpy(copy, data + at, length);
        return insert(data, size, at, copy, length);
    case 4:
        return insert_word(random, data, size, at);
    default: { /* a part of another file */
        size_t from = (size_t)rlx_test_below(random, corpus->sizes[other] + 1);
        size_t bytes = (size_t)rlx_test_below(random, corpus->sizes[other] - from + 1);
        return insert(data, size, at, corpus->files[other] + from, bytes);
    }
    }
}

static void run_mutated(const seed_corpus *corpus, uint64_t count) {
    uint8_t *data = malloc(MAX_BYTES);
    rlx_test_random random = rlx_test_seed(20250101);
    for (uint64_t i = 0; i < count && data != NULL; i++) {
        uint32_t file = (uint32_t)rlx_test_below(&random, corpus->count);
        uint64_t rounds = 1 + rlx_test_below(&random, 6);
        size_t size = room(0, corpus->sizes[file]);
        memcpy(data, corpus->files[file], size);
        for (uint64_t r = 0; r < rounds; r++)
            size = mutate_once(&random, corpus, data, size);
        /* An exact copy, so that a sanitizer sees one byte too many. */
        uint8_t *exact = malloc(size + (size == 0));
        if (exact == NULL) break;
        memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(data);
}

int main(int argument_count, char **arguments) {
    static seed_corpus corpus;
    if (argument_count < 3) {
        fprintf(stderr, "usage: %s COUNT FOLDER_OR_FILE...\n", arguments[0]);
        return 2;
    }
    for (int i = 2; i < argument_count; i++)
        load(&corpus, arguments[i]);
    if (corpus.count == 0) {
        fprintf(stderr, "the corpus is empty\n");
        return 1;
    }
    for (uint32_t i = 0; i < corpus.count; i++)
        LLVMFuzzerTestOneInput(corpus.files[i], corpus.sizes[i]);
    run_mutated(&corpus, strtoull(arguments[1], NULL, 10));
    printf("%u files, %s mutations\n", corpus.count, arguments[1]);
    for (uint32_t i = 0; i < corpus.count; i++)
        free(corpus.files[i]);
    return 0;
}
