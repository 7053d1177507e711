/* SPDX-License-Identifier: Apache-2.0 */
/* The program file: header, plan, weights.
 *
 *     0        256                    a multiple of 64 KiB
 *     [header ][plan section, packed ][zeros][weights segment, byte for byte]
 *
 * The weights begin on a page of every system we know, so they are mapped as they are. Numbers are
 * little-endian; attributes are written field by field from the op table, never as raw structs. A
 * file is hostile: loading checks every bound and ends with the full plan verifier. */
#ifndef RLX_PLAN_FILE_H
#define RLX_PLAN_FILE_H

#include "base/file.h"
#include "base/text.h"
#include "plan/plan.h"

enum {
    RLX_FILE_VERSION = 1,
    RLX_FILE_HEADER_BYTES = 256,
    RLX_FILE_PAGE_BYTES = 65536,
    RLX_FILE_TARGET_BYTES = 64, /* of the name, its zero included */
    RLX_FILE_SEGMENTS = 4,      /* up to SOURCE: a saved plan has no tiles */
    RLX_FILE_PACKINGS = 16      /* layout ids other than 0 that a plan may use */
};

/* The first bytes; they break when a file is sent as text. */
#define RLX_FILE_MAGIC      "\x89rlx\r\n\x1a\n"
#define RLX_FILE_BYTE_ORDER 0x04030201u

/* Where the header has what. */
enum {
    RLX_FILE_AT_VERSION = 8,
    RLX_FILE_AT_ORDER = 12,
    RLX_FILE_AT_PAGE = 16,
    RLX_FILE_AT_PLAN = 24,      /* offset, bytes, checksum */
    RLX_FILE_AT_WEIGHTS = 48,   /* offset, bytes */
    RLX_FILE_AT_STATE = 64,     /* hash of the state layout */
    RLX_FILE_AT_TARGET = 72,    /* zero-terminated */
    RLX_FILE_AT_PACKINGS = 136, /* count, then ids */
    RLX_FILE_AT_CHECKSUM = 248  /* of all before it */
};

/* Gives bytes [offset, offset + bytes) of the weights segment. */
typedef rlx_status (*rlx_weights_read)(void *user, uint64_t offset, uint64_t bytes, void *out);

/* Writes the program. The file appears whole or not at all (RLX_IO: the system's words; also a full
 * disk). The plan is verified first. `weights` has the bytes of the weights segment, prepared. */
RLX_WARN_UNUSED rlx_status rlx_plan_save(const rlx_plan *plan, const void *weights,
                                         const char *path);
/* The same with weights that are fetched piece by piece, in order. */
RLX_WARN_UNUSED rlx_status rlx_plan_save_stream(const rlx_plan *plan, rlx_weights_read read,
                                                void *user, const char *path);

/* Reads the plan of a program; the weights lie at *out_weights_offset of the map and are not
 * touched. The plan copies what it needs: the map may go before it. It has is_loaded set and no
 * sources: prepare steps are there, but have been run. `target` NULL takes a program for any
 * target.
 *
 * RLX_PARSE: no program file, or damaged; RLX_UNSUPPORTED: another format version, page size or
 * byte order; RLX_MISMATCH: made for another target (the text has both names); RLX_INVALID_PLAN:
 * the verifier refused it; RLX_OUT_OF_MEMORY. Callers add the path. */
RLX_WARN_UNUSED rlx_status rlx_plan_load(const rlx_allocator *allocator, const rlx_file_map *map,
                                         const char *target, rlx_plan **out_plan,
                                         uint64_t *out_weights_offset);

/* The first bytes are those of a program file, whatever its version. */
bool rlx_is_program_file(const void *data, uint64_t bytes);

/* What the two directions share (codec.c): the plan section. */
void rlx_plan_encode(const rlx_plan *plan, rlx_text *out_bytes); /* failure sticks in out_bytes */
/* Structure only: the result is not yet verified. RLX_PARSE with the byte that does not fit. */
RLX_WARN_UNUSED rlx_status rlx_plan_decode(const rlx_allocator *allocator, const uint8_t *data,
                                           uint64_t bytes, rlx_plan **out_plan);

/* The header as a value, and its bytes. */
typedef struct rlx_file_header {
    uint64_t plan_bytes, plan_checksum;
    uint64_t weights_offset, weights_bytes;
    uint64_t state_hash;
    uint32_t packings[RLX_FILE_PACKINGS];
    uint32_t packing_count;
    char target[RLX_FILE_TARGET_BYTES];
} rlx_file_header;
void rlx_file_header_encode(const rlx_file_header *header, uint8_t *out_bytes);
RLX_WARN_UNUSED rlx_status rlx_file_header_decode(const uint8_t *data, uint64_t bytes,
                                                  rlx_file_header *out_header);
uint64_t rlx_file_checksum(const void *data, uint64_t bytes);

#endif
