/* SPDX-License-Identifier: Apache-2.0 */
/* librlx_mpi_*: the messenger (rlx/spi/messenger.h) over MPI-3, compiled once per MPI. A library of
 * its own that the mpi transport opens at run time; knows nothing of heaps and collectives. */
#include <rlx/spi/messenger.h>

#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into a word");

/* A note under way: its memory lives until MPI has sent it. */
typedef struct note {
    struct note *next;
    MPI_Request request;
    uint8_t bytes[RLX_MESSENGER_NOTE_BYTES_MOST];
} note;

static struct {
    pthread_mutex_t lock; /* transports of one process may be used by different threads */
    bool is_open, has_failed, is_ours;
    MPI_Comm comm;
    note *notes;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    rlx_messenger table;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .comm = MPI_COMM_NULL};

/* The second word says that there is a message: a request may be all zero. */
static void keep(rlx_message *message, MPI_Request request) {
    memset(message, 0, sizeof *message);
    memcpy(&message->words[0], &request, sizeof request);
    message->words[1] = 1;
}

static MPI_Request request_of(const rlx_message *message) {
    MPI_Request request;
    memcpy(&request, &message->words[0], sizeof request);
    return request;
}

static int send(void *context, const void *data, uint64_t bytes, uint32_t to, uint32_t tag,
                rlx_message *out_message) {
    MPI_Request request = MPI_REQUEST_NULL;
    (void)context;
    pthread_mutex_lock(&state.lock);
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, (int)tag, state.comm, &request);
    pthread_mutex_unlock(&state.lock);
    if (code == MPI_SUCCESS) keep(out_message, request);
    return code;
}

static int receive(void *context, void *data, uint64_t bytes, uint32_t from, uint32_t tag,
                   rlx_message *out_message) {
    MPI_Request request = MPI_REQUEST_NULL;
    int source = from == RLX_MESSENGER_ANY ? MPI_ANY_SOURCE : (int)from;
    (void)context;
    pthread_mutex_lock(&state.lock);
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, source, (int)tag, state.comm, &request);
    pthread_mutex_unlock(&state.lock);
    if (code == MPI_SUCCESS) keep(out_message, request);
    return code;
}

/* Where a status has an error of its own, that one counts. */
static int tell(const MPI_Status *status, uint32_t *out_from, uint64_t *out_bytes) {
    int count = 0;
    int code = MPI_Get_count(status, MPI_BYTE, &count);
    if (out_from != NULL) *out_from = (uint32_t)status->MPI_SOURCE;
    if (out_bytes != NULL) *out_bytes = count > 0 ? (uint64_t)count : 0;
    return code;
}

static int test(void *context, rlx_message *message, bool *out_done, uint32_t *out_from,
                uint64_t *out_bytes) {
    int is_done = 1, code = MPI_SUCCESS;
    (void)context;
    if (message->words[1] != 0) {
        MPI_Request request = request_of(message);
        MPI_Status status;
        pthread_mutex_lock(&state.lock);
        code = MPI_Test(&request, &is_done, &status);
        pthread_mutex_unlock(&state.lock);
        if (code == MPI_SUCCESS && is_done && (out_from != NULL || out_bytes != NULL)) {
            code = tell(&status, out_from, out_bytes);
        }
        if (is_done || code != MPI_SUCCESS) memset(message, 0, sizeof *message);
    }
    *out_done = is_done != 0;
    return code;
}

static void cancel(void *context, rlx_message *message) {
    (void)context;
    if (message->words[1] == 0) return;
    MPI_Request request = request_of(message);
    pthread_mutex_lock(&state.lock);
    if (MPI_Cancel(&request) == MPI_SUCCESS) MPI_Request_free(&request);
    pthread_mutex_unlock(&state.lock);
    memset(message, 0, sizeof *message);
}

/* Frees notes that have been sent. */
static void reap_notes(void) {
    for (note **link = &state.notes; *link != NULL;) {
        note *item = *link;
        int is_done = 0;
        if (MPI_Test(&item->request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done) {
            *link = item->next;
            free(item);
        } else {
            link = &item->next;
        }
    }
}

static int send_note(void *context, const void *data, uint64_t bytes, uint32_t to, uint32_t tag) {
    note *item = bytes <= sizeof item->bytes ? calloc(1, sizeof *item) : NULL;
    (void)context;
    if (item == NULL) return MPI_ERR_NO_MEM;
    memcpy(item->bytes, data, bytes);
    pthread_mutex_lock(&state.lock);
    reap_notes();
    int code =
        MPI_Isend(item->bytes, (int)bytes, MPI_BYTE, (int)to, (int)tag, state.comm, &item->request);
    if (code == MPI_SUCCESS) {
        item->next = state.notes;
        state.notes = item;
    }
    pthread_mutex_unlock(&state.lock);
    if (code != MPI_SUCCESS) free(item);
    return code;
}

static void mark_failed(void *context) {
    (void)context;
    state.has_failed = true;
}

static void text(void *context, int code, char *out, size_t out_bytes) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)context;
    if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) words[0] = '\0';
    snprintf(out, out_bytes, "%s", words[0] != '\0' ? words : "unknown error of MPI");
}

/* Takes what peers sent to transports that were gone: notes that they left. */
static void drop_rest(void) {
    static uint8_t room[1 << 16];
    int is_there = 1;
    while (is_there) {
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, state.comm, &is_there, &status) !=
            MPI_SUCCESS) {
            return;
        }
        if (is_there && MPI_Recv(room, sizeof room, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                                 state.comm, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            return;
        }
    }
}

/* The end of the process. Where a group has failed, MPI_Finalize could wait for ever for a rank
 * that does not come: the job is ended instead. */
static void finish(void) {
    const struct timespec grace = {.tv_nsec =
                                       250000000}; /* others may still have something to say */
    int is_over = 0;
    if (MPI_Finalized(&is_over) != MPI_SUCCESS || is_over) return;
    if (state.has_failed) {
        nanosleep(&grace, NULL);
        MPI_Abort(state.comm, 1);
    }
    if (state.comm != MPI_COMM_NULL && MPI_Barrier(state.comm) == MPI_SUCCESS) drop_rest();
    reap_notes();
    MPI_Finalize();
}

/* MPI is started here unless the program has done so; then the program ends it, too. */
static bool start(char *out_text, size_t out_text_bytes) {
    int is_started = 0, is_over = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&is_started);
    MPI_Finalized(&is_over);
    if (is_over) {
        snprintf(out_text, out_text_bytes, "MPI_Finalize was called already");
        return false;
    }
    if (!is_started) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) {
            snprintf(out_text, out_text_bytes, "MPI_Init_thread fails");
            return false;
        }
        state.is_ours = true;
        atexit(finish);
    } else {
        MPI_Query_thread(&level);
    }
    if (level < MPI_THREAD_SERIALIZED) {
        snprintf(out_text, out_text_bytes,
                 "MPI runs without MPI_THREAD_SERIALIZED, which MPI_Init_thread must ask for");
        return false;
    }
    return true;
}

/* A communicator of our own: no message meets one of the program's. */
static bool fill_table(char *out_text, size_t out_text_bytes) {
    int rank = 0, count = 0, length = 0;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &state.comm) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(state.comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(state.comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(state.comm, &count) != MPI_SUCCESS ||
        MPI_Get_library_version(state.library, &length) != MPI_SUCCESS) {
        snprintf(out_text, out_text_bytes, "MPI gives no communicator");
        return false;
    }
    /* The first line, up to the first comma: name and version. */
    state.library[strcspn(state.library, ",\n")] = '\0';
    for (char *at = state.library; *at != '\0'; at++) {
        if (*at == '\t') *at = ' ';
    }
    state.table = (rlx_messenger){.version = RLX_MESSENGER_VERSION,
                                  .size = sizeof(rlx_messenger),
                                  .rank = (uint32_t)rank,
                                  .rank_count = (uint32_t)count,
                                  .library = state.library,
                                  .send = send,
                                  .receive = receive,
                                  .test = test,
                                  .cancel = cancel,
                                  .note = send_note,
                                  .mark_failed = mark_failed,
                                  .text = text};
    return true;
}

__attribute__((visibility("default"))) bool rlx_messenger_open(uint32_t version,
                                                               const rlx_messenger **out_messenger,
                                                               char *out_text,
                                                               size_t out_text_bytes);

bool rlx_messenger_open(uint32_t version, const rlx_messenger **out_messenger, char *out_text,
                        size_t out_text_bytes) {
    if (version != RLX_MESSENGER_VERSION) {
        snprintf(out_text, out_text_bytes, "it has version %d of the interface, not %u",
                 RLX_MESSENGER_VERSION, version);
        return false;
    }
    pthread_mutex_lock(&state.lock);
    if (!state.is_open) {
        state.is_open = start(out_text, out_text_bytes) && fill_table(out_text, out_text_bytes);
    }
    pthread_mutex_unlock(&state.lock);
    if (!state.is_open) return false;
    *out_messenger = &state.table;
    return true;
}
