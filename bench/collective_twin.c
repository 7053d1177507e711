/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and asks the twin: see collective_twin.h. */
#include "collective_twin.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The program that lies beside this one. */
static bool find_program(const char *kind, char path[4096]) {
    ssize_t length = readlink("/proc/self/exe", path, 4000);
    if (length <= 0) return false;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash == NULL) return false;
    snprintf(slash + 1, 64, "rlx-bench-%s", kind);
    return access(path, X_OK) == 0;
}

static _Noreturn void become(const char *kind, char *path, const char *mode, bool is_loopback) {
    char mpirun[64], *arguments[24];
    static const char *const open_mpi[] = {"--allow-run-as-root", "--bind-to", "core"};
    static const char *const tcp[] = {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self"};
    int count = 0;
    snprintf(mpirun, sizeof mpirun, "mpirun.%s", kind);
    arguments[count++] = mpirun;
    if (strcmp(kind, "openmpi") == 0) {
        for (size_t i = 0; i < 3; i++)
            arguments[count++] = strdup(open_mpi[i]);
        for (size_t i = 0; is_loopback && i < 6; i++)
            arguments[count++] = strdup(tcp[i]);
    } else {
        arguments[count++] = strdup("-bind-to");
        arguments[count++] = strdup("core");
        if (is_loopback) setenv("UCX_TLS", "tcp,self", 1);
    }
    arguments[count++] = strdup("-n");
    arguments[count++] = strdup("2");
    arguments[count++] = path;
    arguments[count++] = strdup(mode);
    arguments[count] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(mpirun, arguments);
    _exit(127);
}

bool bench_twin_start(bench_twin *self, const char *kind, const char *mode, bool is_loopback) {
    char path[4096];
    int to[2], from[2];
    memset(self, 0, sizeof *self);
    if (!find_program(kind, path) || pipe(to) != 0) return false;
    if (pipe(from) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    fflush(NULL);
    self->process = fork();
    if (self->process == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int i = 0; i < 2; i++) {
            close(to[i]);
            close(from[i]);
        }
        become(kind, path, mode, is_loopback);
    }
    close(to[0]);
    close(from[1]);
    self->to = fdopen(to[1], "w");
    self->from = fdopen(from[0], "r");
    return self->process > 0 && self->to != NULL && self->from != NULL;
}

double bench_twin_ask(bench_twin *self, uint64_t bytes) {
    double ns = -1;
    if (self->to == NULL || fprintf(self->to, "%llu\n", (unsigned long long)bytes) < 0 ||
        fflush(self->to) != 0 || fscanf(self->from, "%lf", &ns) != 1) {
        return -1;
    }
    return ns;
}

void bench_twin_stop(bench_twin *self) {
    if (self->to != NULL) fclose(self->to);
    if (self->from != NULL) fclose(self->from);
    if (self->process > 0) waitpid(self->process, NULL, 0);
    memset(self, 0, sizeof *self);
}
