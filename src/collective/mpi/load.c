/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the plugin with the MPI that fits: beside this library or program, below the
 * prefix it is installed in, or where the system looks for libraries. */
#include "collective/mpi/mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TEXT_BYTES = 512 };
static const char *const kinds[] = {"openmpi", "mpich"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The folder of a path; false where it has none. */
static bool folder_of(const char *path, char *out) {
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    if (slash == NULL || length >= PATH_BYTES) return false;
    memcpy(out, path, length);
    out[length] = '\0';
    return true;
}

static bool own_folder(char *out) {
    Dl_info info;
    return dladdr((const void *)(uintptr_t)&own_folder, &info) != 0 &&
           folder_of(info.dli_fname, out);
}

static bool program_folder(char *out) {
    char path[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return false;
    path[length] = '\0';
    return folder_of(path, out);
}

/* MPI libraries open parts of themselves, which look for the symbols of the whole. */
static void *open_file(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static void *open_below(const char *folder, const char *name) {
    static const char *const inner[] = {"", "/rlx", ("/../" RLX_PLUGIN_FOLDER)};
    char path[2 * PATH_BYTES];
    for (size_t i = 0; i < sizeof inner / sizeof *inner; ++i) {
        snprintf(path, sizeof path, "%s%s/%s", folder, inner[i], name);
        if (access(path, R_OK) == 0) return open_file(path);
    }
    return NULL;
}

static void *open_kind(const char *kind, char *out_text) {
    char folder[PATH_BYTES], name[64];
    void *library = NULL;
    const char *problem;
    snprintf(name, sizeof name, "librlx_mpi_%s.so", kind);
    if (own_folder(folder)) library = open_below(folder, name);
    if (library == NULL && program_folder(folder)) library = open_below(folder, name);
    if (library == NULL) library = open_file(name);
    problem = library == NULL ? dlerror() : NULL;
    if (library == NULL) {
        snprintf(out_text, TEXT_BYTES, "%s", problem != NULL ? problem : "it cannot be opened");
    }
    return library;
}

/* Which MPI this program is linked with or has opened; NULL: none. */
static const char *kind_in_process(void) {
    if (dlsym(RTLD_DEFAULT, "MPI_Init") == NULL) return NULL;
    return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL ? kinds[0] : kinds[1];
}

static rlx_status open_plugin(const rlx_rank *who, void **out_library) {
    const char *only = kind_in_process();
    char text[TEXT_BYTES] = "";
    if (only == NULL) only = who->mpi;
    for (size_t i = 0; i < KINDS; ++i) {
        if (only != NULL && strcmp(only, kinds[i]) != 0) continue;
        *out_library = open_kind(kinds[i], text);
        if (*out_library != NULL) return RLX_OK;
    }
    return RLX_FAIL(RLX_UNSUPPORTED,
                    "rank %u of %u was started by an MPI launcher, and the plugin for %s cannot be "
                    "had: %s (it is built with rlx where that MPI's mpicc is: "
                    "scripts/install-deps.sh mpi)",
                    who->rank, who->rank_count, only != NULL ? only : "any MPI",
                    text[0] != '\0' ? text : "no such MPI");
}

/* dlsym gives an object pointer; C has no cast from it to a function. */
static rlx_messenger_open_function entry_of(void *library) {
    rlx_messenger_open_function function = NULL;
    void *symbol = dlsym(library, RLX_MESSENGER_OPEN_NAME);
    _Static_assert(sizeof function == sizeof symbol, "POSIX has them alike");
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static rlx_status check_identity(const rlx_rank *who, const rlx_messenger *messenger) {
    if (messenger->version != RLX_MESSENGER_VERSION || messenger->size < sizeof *messenger) {
        return RLX_FAIL(RLX_UNSUPPORTED, "the MPI plugin is of another version");
    }
    if (who->rank == messenger->rank && who->rank_count == messenger->rank_count) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED,
                    "the launcher says rank %u of %u, and %s rank %u of %u: it is not the MPI of "
                    "the launcher",
                    who->rank, who->rank_count, messenger->library, messenger->rank,
                    messenger->rank_count);
}

rlx_status rlx_mpi_open(const rlx_rank *who, const rlx_messenger **out_messenger) {
    char text[TEXT_BYTES] = "no reason given";
    const rlx_messenger *messenger = NULL;
    rlx_messenger_open_function function;
    void *library = NULL;
    RLX_TRY(open_plugin(who, &library));
    function = entry_of(library);
    if (function == NULL || !function(RLX_MESSENGER_VERSION, &messenger, text, sizeof text)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "the MPI plugin does not start: %s",
                        function == NULL ? "it is no plugin" : text);
    }
    RLX_TRY(check_identity(who, messenger));
    *out_messenger = messenger;
    return RLX_OK;
}
