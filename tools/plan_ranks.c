/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `rlx plan` about ranks: who has how many bytes, what is split and why the rest is
 * not.
 */
#include "plan_ranks.h"

#include <inttypes.h>

static void print_split(const rlx_plan *plan, const rlx_split_info *info) {
    rlx_entry_info entry = {.name = ""};
    if (rlx_plan_entry_count(plan) > 1) (void)!rlx_plan_entry_at(plan, info->entry, &entry);
    printf("  %s%s%-7s %s: %s; weights %s", entry.name, entry.name[0] == 0 ? "" : ": ",
           info->is_split ? "split" : "whole", tool_name(info->name), info->text,
           tool_bytes(info->own_bytes));
    if (info->is_split) printf(" of %s", tool_bytes(info->whole_bytes));
    putchar('\n');
}

void tool_print_ranks(const rlx_plan *plan, bool verbose) {
    uint64_t split = 0, own = 0, whole = 0;
    uint32_t unsplit = 0;
    if (rlx_plan_rank_count(plan) <= 1) return;
    printf("ranks    %u, each with these bytes; %" PRIu64 " B of them in the symmetric heap\n",
           rlx_plan_rank_count(plan), rlx_plan_heap_bytes(plan));
    for (uint32_t i = 0; i < rlx_plan_split_count(plan); i++) {
        rlx_split_info info;
        if (rlx_plan_split_at(plan, i, &info) != RLX_OK) continue;
        if (info.is_split || verbose) print_split(plan, &info);
        if (info.entry != 0) continue;
        *(info.is_split ? &split : &whole) += info.whole_bytes;
        if (info.is_split) own += info.own_bytes;
        unsplit += !info.is_split;
    }
    printf("  %s of weights split, %s of them here", tool_bytes(split), tool_bytes(own));
    if (unsplit != 0) {
        printf("; %u products with %s on every rank%s", unsplit, tool_bytes(whole),
               verbose ? "" : " (-v says why)");
    }
    putchar('\n');
}

void tool_json_ranks(const rlx_plan *plan) {
    if (rlx_plan_rank_count(plan) <= 1) return;
    printf(",\"ranks\":%u,\"heap\":%" PRIu64 ",\"splits\":[", rlx_plan_rank_count(plan),
           rlx_plan_heap_bytes(plan));
    for (uint32_t i = 0; i < rlx_plan_split_count(plan); i++) {
        rlx_split_info info;
        if (rlx_plan_split_at(plan, i, &info) != RLX_OK) continue;
        printf("%s{\"entry\":%u,\"name\":", i == 0 ? "" : ",", info.entry);
        tool_json_text(stdout, info.name);
        printf(",\"split\":%s,\"text\":", info.is_split ? "true" : "false");
        tool_json_text(stdout, info.text);
        printf(",\"weights\":%" PRIu64 ",\"own\":%" PRIu64 "}", info.whole_bytes, info.own_bytes);
    }
    putchar(']');
}
