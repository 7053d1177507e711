/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the corpus of the program fuzzer into a folder: the plan sections of the plans that the
 * tests make by hand. Made afresh, so that it always has the format of today. */
#include "plan/build.h"
#include "plan/file.h"

#include <stdio.h>
#include <sys/stat.h>

static int write_plan(const char *folder, const char *name, rlx_plan *plan) {
    char path[1024];
    rlx_text section = {0};
    snprintf(path, sizeof path, "%s/%s.plan", folder, name);
    rlx_plan_encode(plan, &section);
    FILE *file = fopen(path, "wb");
    size_t wrote = file == NULL ? 0 : fwrite(section.data, 1, section.length, file);
    bool is_good = section.status == RLX_OK && wrote == section.length;
    if (file != NULL && fclose(file) != 0) is_good = false;
    rlx_text_free(&section);
    rlx_plan_destroy(plan);
    if (!is_good) fprintf(stderr, "cannot write %s\n", path);
    return is_good ? 0 : 1;
}

int main(int argument_count, char **arguments) {
    rlx_plan *plan = NULL;
    char name[32];
    int failed = 0;
    if (argument_count != 2) return 2;
    (void)mkdir(arguments[1], 0777);
    for (uint32_t i = 0; i < family_count(); i++) {
        snprintf(name, sizeof name, "family-%u", i);
        if (build_family(NULL, i, &plan) != RLX_OK) return 1;
        failed |= write_plan(arguments[1], name, plan);
    }
    if (build_two_entries(NULL, &plan) != RLX_OK) return 1;
    failed |= write_plan(arguments[1], "two-entries", plan);
    if (build_loop(NULL, &plan) != RLX_OK) return 1;
    failed |= write_plan(arguments[1], "loop", plan);
    return failed;
}
