/* SPDX-License-Identifier: Apache-2.0 */
/* The replaced allocation functions. */
#include "support/counted_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t calls;

uint64_t counted_calls(void) {
    return atomic_load(&calls);
}

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

/* Some have no prototype in the headers that are asked for here. */
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *reallocarray(void *memory, size_t count, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
void *valloc(size_t bytes);
int posix_memalign(void **out, size_t alignment, size_t bytes);
void free(void *memory);

void *malloc(size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(memory, bytes);
}

void *reallocarray(void *memory, size_t count, size_t bytes) {
    size_t all;
    atomic_fetch_add(&calls, 1);
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return __libc_realloc(memory, all);
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

void *valloc(size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(4096, bytes);
}

void free(void *memory) {
    atomic_fetch_add(&calls, 1);
    __libc_free(memory);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    atomic_fetch_add(&calls, 1);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

int munmap(void *address, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return (int)syscall(SYS_munmap, address, bytes);
}

int brk(void *address) {
    atomic_fetch_add(&calls, 1);
    return (int)syscall(SYS_brk, address);
}

uint64_t counted_maps(void) {
    static char text[1 << 18];
    size_t used = 0;
    uint64_t hash = 1469598103934665603u;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 1; file >= 0 && got > 0 && used + 1 < sizeof text; used += (size_t)got) {
        got = read(file, text + used, sizeof text - 1 - used);
        if (got < 0) break;
    }
    if (file >= 0) close(file);
    text[used] = 0;
    for (char *line = text; *line != 0;) {
        size_t length = strcspn(line, "\n");
        char held = line[length];
        line[length] = 0;
        if (strstr(line, "[stack]") == NULL) {
            for (size_t i = 0; i < length; i++)
                hash = (hash ^ (unsigned char)line[i]) * 1099511628211u;
        }
        line[length] = held;
        line += length + (held != 0);
    }
    return hash;
}
