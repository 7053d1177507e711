/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler on one screen: the passes in order. compile.c lowers what they leave. */
#include "base/size.h"
#include "compile/compile.h"

#include <string.h>

typedef struct pass {
    const char *name;
    rlx_status (*run)(rlx_pass_context *context);
    bool is_needed; /* cannot be switched off */
} pass;

static const pass passes[] = {
    {"bind", rlx_pass_bind, true},
    {"fuse_quantised", rlx_pass_fuse_quantised, false},
    {"fold", rlx_pass_fold, false},
    {"remove_dead", rlx_pass_remove_dead, false},
    {"compact", rlx_pass_compact, false},
    {"merge_duplicates", rlx_pass_merge_duplicates, false},
    {"canonicalise", rlx_pass_canonicalise, false},
    {"fuse_batch_norm", rlx_pass_fuse_batch_norm, false},
    {"split_strides", rlx_pass_split_strides, false},
    {"fuse_attention", rlx_pass_fuse_attention, false},
    {"shard", rlx_pass_shard, false},
    {"fuse_epilogue", rlx_pass_fuse_epilogue, false},
    {"fold_depth", rlx_pass_fold_depth, false},
    {"widen_conv", rlx_pass_widen_conv, false},
    {"split_groups", rlx_pass_split_groups, false},
    {"fuse_norm", rlx_pass_fuse_norm, false},
    {"fuse_chain", rlx_pass_fuse_chain, false},
    {"remove_dead_again", rlx_pass_remove_dead, false},
    {"compact_again", rlx_pass_compact, false},
    {"hoist", rlx_pass_hoist, false},
    {"own_outputs", rlx_pass_own_outputs, true},
    {"block_channels", rlx_pass_block_channels, false},
    {"winograd", rlx_pass_winograd, false},
    {"pack_weights", rlx_pass_pack_weights, false},
    /* Lowering asks for these by name (rlx_pass_is_on). */
    {"reorder", NULL, false},
    {"views", NULL, false},
    {"in_place", NULL, false},
    {"concat_in_place", NULL, false},
};
enum { PASS_COUNT = sizeof passes / sizeof *passes, MOST_RANKS = 256 };

uint32_t rlx_pass_count(void) {
    return PASS_COUNT;
}

const char *rlx_pass_name(uint32_t index) {
    return index < PASS_COUNT ? passes[index].name : NULL;
}

bool rlx_pass_is_on(const rlx_compile_options *options, const char *name) {
    for (uint32_t i = 0; i < PASS_COUNT; i++) {
        if (strcmp(passes[i].name, name) != 0) continue;
        return passes[i].is_needed || (options->disabled_passes >> i & 1) == 0;
    }
    return false;
}

static rlx_status check_given(const rlx_given_value *given) {
    uint64_t elements = 1, bytes = 0;
    if (given->name == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "a given value has no name");
    if (given->dtype >= RLX_DTYPE_COUNT || given->shape.rank > RLX_MAX_RANK) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "given '%s' has no dtype or rank %u", given->name,
                        given->shape.rank);
    }
    for (uint32_t i = 0; i < given->shape.rank; i++) {
        if (given->shape.dims[i] < 0 ||
            !rlx_mul_u64(elements, (uint64_t)given->shape.dims[i], &elements)) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "given '%s': dim %u is %" PRId64, given->name, i,
                            given->shape.dims[i]);
        }
    }
    if (given->data == NULL) return RLX_OK;
    RLX_TRY(rlx_dtype_bytes(given->dtype, elements, &bytes));
    if (bytes == given->bytes) return RLX_OK;
    return RLX_FAIL(RLX_LENGTH_MISMATCH, "given '%s': expected %" PRIu64 " bytes, got %" PRIu64,
                    given->name, bytes, given->bytes);
}

static rlx_status check_bindings(const rlx_entry_spec *entry, const char *what,
                                 const rlx_binding *list, uint32_t count) {
    const char *name = entry->name == NULL ? "main" : entry->name;
    if (list == NULL && count != 0)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%ss of entry '%s' are null", what, name);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].symbol == NULL)
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s %" PRIu32 " of entry '%s' names no symbol",
                            what, i, name);
    }
    return RLX_OK;
}

static rlx_status check_entry(const rlx_entry_spec *entry) {
    if (entry->given == NULL && entry->given_count != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "given values of entry '%s' are null",
                        entry->name == NULL ? "main" : entry->name);
    }
    for (uint32_t i = 0; i < entry->given_count; i++)
        RLX_TRY(check_given(&entry->given[i]));
    RLX_TRY(check_bindings(entry, "binding", entry->bindings, entry->binding_count));
    return check_bindings(entry, "growing size", entry->growing, entry->growing_count);
}

rlx_status rlx_compile_options_read(const rlx_compile_options *options,
                                    rlx_compile_options *out_options) {
    rlx_compile_options read = {.size = sizeof read};
    if (options != NULL) {
        if (options->size == 0 || options->size > sizeof read) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT,
                            "compile options have size %zu, this library knows %zu", options->size,
                            sizeof read);
        }
        memcpy(&read, options, options->size);
        read.size = sizeof read;
    }
    if (read.entries == NULL && read.entry_count != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "entries are null");
    }
    for (uint32_t i = 0; i < read.entry_count; i++)
        RLX_TRY(check_entry(&read.entries[i]));
    if (read.rank_count == 0) read.rank_count = 1;
    if (read.rank_count > MOST_RANKS || read.rank >= read.rank_count) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "rank %u of %u: ranks are 0 .. count - 1, at most %d",
                        read.rank, read.rank_count, MOST_RANKS);
    }
    if (read.disabled_passes >> PASS_COUNT != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "disabled_passes names a pass past the last (%d)",
                        PASS_COUNT);
    }
    *out_options = read;
    return RLX_OK;
}

rlx_status rlx_run_passes(rlx_pass_context *context) {
    for (uint32_t i = 0; i < PASS_COUNT; i++) {
        if (passes[i].run == NULL || !rlx_pass_is_on(context->options, passes[i].name)) continue;
        rlx_status status = passes[i].run(context);
        rlx_scratch_reset(context->scratch);
        if (status != RLX_OK) return status;
#if defined(RLX_ENABLE_ASSERT)
        RLX_TRY_WITH(rlx_graph_verify(context->graph), "after pass %s", passes[i].name);
#endif
    }
    return RLX_OK;
}
