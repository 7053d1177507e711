/* SPDX-License-Identifier: Apache-2.0 */
/* For plugins: messages between ranks, as the `mpi` transport needs them. A plugin is a shared
 * library, opened at run time, with one function `rlx_messenger_open` of the type below; the
 * library itself links no MPI.
 *
 * Messages of one sender, receiver and tag arrive in the order they were sent, and are matched with
 * receives in the order those were posted. Nothing but test() needs to make progress. Calls come
 * from one thread at a time, not always the same. */
#ifndef RLX_SPI_MESSENGER_H
#define RLX_SPI_MESSENGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Grows when the table or a meaning changes; both sides must have the same. */
#define RLX_MESSENGER_VERSION   1
#define RLX_MESSENGER_OPEN_NAME "rlx_messenger_open"

#define RLX_MESSENGER_ANY UINT32_MAX /* a receive from any rank */
enum {
    RLX_MESSENGER_BYTES_MOST = 1 << 30,  /* of a message */
    RLX_MESSENGER_NOTE_BYTES_MOST = 128, /* of a note */
    RLX_MESSENGER_TAGS_LEAST = 32767     /* tags are 0 to this at least */
};

/* A message under way; all zero: none. */
typedef struct rlx_message {
    uint64_t words[2];
} rlx_message;

typedef struct rlx_messenger rlx_messenger;
struct rlx_messenger {
    uint32_t version;
    size_t size; /* sizeof(rlx_messenger) */
    uint32_t rank, rank_count;
    const char *library; /* "Open MPI v4.1.4", for people */
    void *context;       /* the plugin's own */

    /* Functions that can fail return 0 or the library's error code, for which text() has words. */
    int (*send)(void *context, const void *data, uint64_t bytes, uint32_t to, uint32_t tag,
                rlx_message *out_message);
    int (*receive)(void *context, void *data, uint64_t bytes, uint32_t from, uint32_t tag,
                   rlx_message *out_message);
    /* Makes progress. A message that is done is all zero afterwards; of a receive, sender and
     * length are told (either may be NULL). */
    int (*test)(void *context, rlx_message *message, bool *out_done, uint32_t *out_from,
                uint64_t *out_bytes);
    /* Gives a receive or send up; its memory is the caller's again where the library can say so. */
    void (*cancel)(void *context, rlx_message *message);
    /* A short message that is copied and needs no test. */
    int (*note)(void *context, const void *data, uint64_t bytes, uint32_t to, uint32_t tag);
    /* A group has failed: the end of this process shall not wait for the other ranks. */
    void (*mark_failed)(void *context);
    void (*text)(void *context, int code, char *out, size_t out_bytes);
};

/* Starts the library where the program has not, and fills the table. The same table for every call
 * of a process. False, with the reason in `out_text`, where that is impossible. */
typedef bool (*rlx_messenger_open_function)(uint32_t version, const rlx_messenger **out_messenger,
                                            char *out_text, size_t out_text_bytes);

#endif
