// The server's network interface: what delays messages in transit.
//
// Three limits hold at once, and a message arrives when the last of them lets it: the bandwidth of
// its direction, the packets of both directions together, and what one connection may carry. Bytes
// and packets queue behind those of all connections; while one connection waits for its own limit,
// others overtake it. At a server with interrupt cores, one of them takes a request's packets to
// its socket: each connection has its core.

#ifndef FORECACHE_NETWORK_H
#define FORECACHE_NETWORK_H

#include "interruptions.h"

// A client's number.
INLINE int64_t number_of(struct node *n, struct client *client) {
    return client - n->client_rows;
}

// Packets of a message.
INLINE int64_t packets_of(struct node *n, int64_t size_bytes) {
    if (unlikely(size_bytes > n->segment_size_bytes)) {
        return (size_bytes - 1) / n->segment_size_bytes + 1;
    }
    return 1;
}

// When the last limit is behind a message that is sent now, in ps.
//
// `free_ps` says when its direction's bandwidth is free, `flows_ps` each connection in it.
INLINE int64_t passes(struct node *n, int64_t *free_ps, int64_t *flows_ps, struct client *client,
                      int64_t packets, int64_t size_bytes, int64_t now) {
    int64_t framed_bytes = size_bytes + packets * n->header_bytes;
    int64_t sent = max64(now, *free_ps) + ((framed_bytes * n->wire_ps_per_kib) >> 10);
    int64_t counted = max64(now, n->packets_free_ps) + packets * n->packet_ps;
    *free_ps = sent;
    n->packets_free_ps = counted;
    int64_t last = max64(sent, counted);
    if (n->flow_ps_per_kib > 0) {
        int64_t *flow = &flows_ps[number_of(n, client)];
        int64_t alone = max64(now, *flow) + ((framed_bytes * n->flow_ps_per_kib) >> 10);
        *flow = alone;
        last = max64(last, alone);
    }
    return last;
}

// When the interrupt core of a client's connection has put its packets into the socket.
INLINE int64_t interrupted(struct node *n, struct client *client, int64_t packets,
                           int64_t arrived, int64_t now) {
    int64_t *free_ps = &n->interrupts_free_ps[number_of(n, client) % n->interrupt_cores];
    int64_t taking = packets * n->softirq_ps;
    if (unlikely(n->sibling_threads > 0)) {
        taking = beside_siblings(n, taking, *free_ps <= now, now);
    }
    n->interrupt_ps += taking;
    int64_t done = max64(arrived, *free_ps) + taking;
    *free_ps = done;
    return done;
}

// When what a client sends now is in its socket at the server.
INLINE int64_t request_arrives(struct node *n, struct client *client, int64_t size_bytes,
                               int64_t now) {
    int64_t packets = packets_of(n, size_bytes);
    n->packets_in += packets;
    int64_t last =
        passes(n, &n->nic_in_free_ps, n->flows_in_free_ps, client, packets, size_bytes, now);
    int64_t arrived = last + n->one_way_ps;
    if (n->interrupt_cores > 0) {
        return interrupted(n, client, packets, arrived, now);
    }
    return arrived;
}

// When what the server sends now is in its socket at the client.
INLINE int64_t reply_arrives(struct node *n, struct client *client, int64_t size_bytes,
                             int64_t now) {
    int64_t packets = packets_of(n, size_bytes);
    n->packets_out += packets;
    int64_t last =
        passes(n, &n->nic_out_free_ps, n->flows_out_free_ps, client, packets, size_bytes, now);
    return last + n->one_way_ps;
}

// Copies of the writes leave for replicas, each on a connection of its own.
INLINE void stream_leaves(struct node *n, int64_t copies, int64_t size_bytes, int64_t now) {
    int64_t packets = copies * packets_of(n, size_bytes);
    int64_t framed_bytes = copies * size_bytes + packets * n->header_bytes;
    int64_t leaves = max64(now, n->nic_out_free_ps);
    n->nic_out_free_ps = leaves + ((framed_bytes * n->wire_ps_per_kib) >> 10);
    n->packets_free_ps = max64(now, n->packets_free_ps) + packets * n->packet_ps;
    n->packets_out += packets;
    n->wire_bytes_out += copies * size_bytes;
}

#endif
