// Counts what an event loop calls, without stopping it as a tracer does: preloaded into a server or a
// load generator, which finds its own functions behind these.
//
// The counts lie in the file that COUNTED names, which whoever wants them reads at any time. Threads
// add to the same counts without a lock: count programs of one thread.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WAITS, EVENTS, READS, WRITES, COUNTS };

static int64_t nowhere[COUNTS];
static int64_t *counts = nowhere;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("COUNTED");
    int file = path ? open(path, O_RDWR) : -1;
    if (file < 0) {
        return;
    }
    void *mapped = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) {
        counts = mapped;
    }
    close(file);
}

#define COUNTED(kind, type, name, declared, given)                                                 \
    type name declared {                                                                           \
        static type(*behind) declared;                                                             \
        if (!behind) {                                                                             \
            behind = dlsym(RTLD_NEXT, #name);                                                      \
        }                                                                                          \
        counts[kind]++;                                                                            \
        return behind given;                                                                       \
    }

COUNTED(READS, ssize_t, read, (int file, void *to, size_t size), (file, to, size))
COUNTED(READS, ssize_t, recv, (int file, void *to, size_t size, int flags), (file, to, size, flags))
COUNTED(WRITES, ssize_t, write, (int file, const void *from, size_t size), (file, from, size))
COUNTED(WRITES, ssize_t, writev, (int file, const struct iovec *from, int parts),
        (file, from, parts))
COUNTED(WRITES, ssize_t, send, (int file, const void *from, size_t size, int flags),
        (file, from, size, flags))

int epoll_wait(int set, struct epoll_event *events, int most, int timeout) {
    static int (*behind)(int, struct epoll_event *, int, int);
    if (!behind) {
        behind = dlsym(RTLD_NEXT, "epoll_wait");
    }
    int found = behind(set, events, most, timeout);
    counts[WAITS]++;
    counts[EVENTS] += found > 0 ? found : 0;
    return found;
}
