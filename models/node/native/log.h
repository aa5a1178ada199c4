// What writes add to the append-only file and to the replication stream.

#ifndef FORECACHE_LOG_H
#define FORECACHE_LOG_H

#include "network.h"

// Hand logged writes to the kernel, beginning now; returns how long that takes.
INLINE int64_t flush_ps(struct node *n, int64_t now) {
    if (n->logged_bytes == 0) {
        return 0;
    }
    if (n->replicas > 0 && !n->same_host) {
        stream_leaves(n, n->replicas, n->logged_bytes, now);
    }
    n->logged_bytes = 0;
    n->flushes++;
    return n->flush_ps;
}

#endif
