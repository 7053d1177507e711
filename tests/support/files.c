/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary folders and whole files for tests. */
#include "support/support.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void rlx_test_folder_create(rlx_test_folder *folder) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder->path, sizeof folder->path, "%s/rlx-test-XXXXXX",
                   base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(folder->path));
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *where) {
    (void)facts, (void)kind, (void)where;
    return remove(path);
}

void rlx_test_folder_remove(rlx_test_folder *folder) {
    assert_int_equal(nftw(folder->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *rlx_test_path(const rlx_test_folder *folder, const char *name) {
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder->path, name);
    return path;
}

void rlx_test_write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

char *rlx_test_read_file(const char *path, size_t *out_bytes) {
    FILE *file = fopen(path, "rb");
    char *data;
    long bytes;
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    bytes = ftell(file);
    assert_true(bytes >= 0);
    rewind(file);
    data = malloc((size_t)bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)bytes, file), (size_t)bytes);
    data[bytes] = '\0';
    fclose(file);
    if (out_bytes != NULL) *out_bytes = (size_t)bytes;
    return data;
}

unsigned rlx_test_entry_count(const char *path) {
    DIR *folder = opendir(path);
    unsigned count = 0;
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        ++count;
    closedir(folder);
    return count - 2; /* . and .. */
}
