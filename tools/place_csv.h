/* SPDX-License-Identifier: Apache-2.0 */
/* The table of buffers that `rlx place` reads and writes: a header that names the columns id,
 * lower, upper and size in any order, then one row per buffer. */
#ifndef RLX_TOOLS_PLACE_CSV_H
#define RLX_TOOLS_PLACE_CSV_H

#include <rlx/place.h>

typedef struct place_csv {
    char *text; /* owned; the ids point into it */
    const char **ids;
    rlx_place_item *items;
    uint32_t count;
} place_csv;

/* False: a message with file and line was printed to stderr. */
bool place_csv_read(const char *path, place_csv *out_csv);
/* Writes the rows with an offset column; "-" is stdout. The file appears whole or not at all.
 * False: a message was printed. */
bool place_csv_write(const char *path, const place_csv *csv, const uint64_t *offsets);
void place_csv_free(place_csv *csv); /* a zeroed struct is fine */

#endif
