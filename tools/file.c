/* SPDX-License-Identifier: Apache-2.0 */
/* Text files that appear whole or not at all. */
#include "file.h"

#include "signals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static rlx_status fail(const char *path, const char *what, int code) {
    return tool_error(RLX_IO, "cannot %s '%s': %s", what, path, strerror(code));
}

/* Renaming over a device would replace the device itself, so it is written directly. */
static bool is_special(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
}

rlx_status tool_file_open(const char *path, tool_file *out_file) {
    size_t bytes = strlen(path) + 32;
    tool_file file = {.path = path};
    if (!is_special(path)) {
        file.beside = malloc(bytes);
        if (file.beside == NULL) return tool_error(RLX_OUT_OF_MEMORY, "no memory for '%s'", path);
        snprintf(file.beside, bytes, "%s.tmp-%ld", path, (long)getpid());
    }
    tool_hold_interrupts(NULL);
    file.stream = fopen(file.beside == NULL ? path : file.beside, file.beside == NULL ? "w" : "wx");
    if (file.stream == NULL) {
        int code = errno;
        tool_release_interrupts();
        free(file.beside);
        return fail(path, "write", code);
    }
    *out_file = file;
    return RLX_OK;
}

rlx_status tool_file_commit(tool_file *file) {
    int code = 0;
    bool is_written = fflush(file->stream) == 0 && !ferror(file->stream);
    /* The cause may be long gone; the file goes anyway, so it is asked once more. */
    if (!is_written && write(fileno(file->stream), "\n", 1) < 0) code = errno;
    if (fclose(file->stream) != 0 && is_written) {
        is_written = false;
        code = errno;
    }
    if (is_written && file->beside != NULL && rename(file->beside, file->path) != 0) {
        is_written = false;
        code = errno;
    }
    if (!is_written && file->beside != NULL) unlink(file->beside);
    free(file->beside);
    file->beside = NULL;
    tool_release_interrupts();
    return is_written ? RLX_OK : fail(file->path, "write", code == 0 ? EIO : code);
}

rlx_status tool_file_write(const char *path, const char *text) {
    tool_file file;
    rlx_status status = tool_file_open(path, &file);
    if (status != RLX_OK) return status;
    fputs(text, file.stream);
    return tool_file_commit(&file);
}
