/* SPDX-License-Identifier: Apache-2.0 */
/* A .rlx file to a graph. The parser (src/ir) reads the text; here its references to files become
 * ranges of those files, checked against what the files hold. */
#include "base/file.h"
#include "base/size.h"
#include "import/import.h"
#include "import/npy.h"
#include "ir/text.h"

typedef struct resolver {
    const char *model; /* path of the .rlx file */
    rlx_scratch paths; /* joined paths, until the graph has copied them */
} resolver;

/* Relative to the folder of the model. */
static rlx_status join(resolver *self, const char *path, const char **out_path) {
    const char *slash = strrchr(self->model, '/');
    if (path[0] == '/' || slash == NULL)
        return rlx_scratch_text(&self->paths, path, strlen(path), out_path);
    return rlx_scratch_printf(&self->paths, out_path, "%.*s/%s", (int)(slash - self->model),
                              self->model, path);
}

static rlx_status check_range(const char *path, uint64_t offset, uint64_t bytes) {
    rlx_file_map map = {0};
    uint64_t end = 0;
    RLX_TRY(rlx_file_map_open(path, &map));
    uint64_t size = map.bytes;
    rlx_file_map_close(&map);
    if (rlx_add_u64(offset, bytes, &end) && end <= size) return RLX_OK;
    rlx_status status =
        RLX_FAIL(RLX_OUT_OF_BOUNDS, "%s: offset %" PRIu64 " + bytes %" PRIu64 " > file %" PRIu64,
                 path, offset, bytes, size);
    rlx_error_detail_edit()->offset = offset;
    rlx_error_detail_edit()->bytes = bytes;
    rlx_error_detail_edit()->limit = size;
    return status;
}

static rlx_status resolve_npy(const char *path, const rlx_text_reference *reference,
                              uint64_t *out_offset) {
    rlx_npy_info info;
    RLX_TRY(rlx_npy_read_header(path, &info));
    RLX_TRY_WITH(rlx_npy_holds(&info, reference->type), "%s", path);
    *out_offset = info.offset;
    return RLX_OK;
}

static rlx_status resolve(void *user, const rlx_text_reference *reference, rlx_source *out_source) {
    resolver *self = user;
    const char *path = NULL;
    uint64_t offset = reference->offset;
    RLX_TRY(join(self, reference->path, &path));
    if (reference->is_npy) {
        RLX_TRY_WITH(resolve_npy(path, reference, &offset), "'%s'", reference->name);
    } else {
        RLX_TRY_WITH(check_range(path, offset, reference->bytes), "'%s'", reference->name);
    }
    *out_source = (rlx_source){
        .kind = RLX_SOURCE_FILE, .path = path, .offset = offset, .bytes = reference->bytes};
    return RLX_OK;
}

rlx_status rlx_import_text(const rlx_allocator *allocator, const char *path,
                           rlx_graph **out_graph) {
    rlx_file_map map = {0};
    resolver self = {.model = path, .paths = {.allocator = allocator}};
    rlx_text_resolver hook = {resolve, &self};
    if (path == NULL || out_graph == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(rlx_file_map_open(path, &map));
    rlx_status status =
        rlx_graph_parse_with(allocator, (const char *)map.data, map.bytes, &hook, out_graph);
    rlx_scratch_reset(&self.paths);
    rlx_file_map_close(&map);
    return status == RLX_OK ? RLX_OK : rlx_fail_context(status, "%s", path);
}

/* After blanks and comments comes "rlx" and a number. */
bool rlx_probe_text(const uint8_t *head, uint64_t bytes) {
    uint64_t at = 0;
    while (at < bytes && strchr(" \t\r\n#", head[at]) != NULL && head[at] != 0) {
        if (head[at] == '#') {
            while (at < bytes && head[at] != '\n')
                at++;
        } else {
            at++;
        }
    }
    return bytes - at >= 5 && memcmp(head + at, "rlx ", 4) == 0 && head[at + 4] >= '0' &&
           head[at + 4] <= '9';
}
