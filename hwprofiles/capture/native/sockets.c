// Small messages over local connections, with the peer awake and with it asleep.

#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"

enum {
    MOST_EVENTS = 128,
    LONGEST_WAIT_MS = 1000,
    LEFT_TO_RCU = 8,  // a message: with one, cores stop their tick now and then
    LOOKS_A_CALL = 100,  // a system call takes as long as so many looks at a word in memory
};

// ns to send `size` bytes on every socket; -1 when one does not take all of it.
EXPORTED int64_t send_all(const int32_t *sockets, int64_t count, const uint8_t *message,
                          int64_t size, int64_t clock) {
    int64_t start = now_ns(clock);
    for (int64_t i = 0; i < count; i++) {
        if (send(sockets[i], message, (size_t)size, 0) != size) {
            return -1;
        }
    }
    return now_ns(clock) - start;
}

// ns to receive `size` bytes on every socket; -1 when one has less.
EXPORTED int64_t receive_all(const int32_t *sockets, int64_t count, uint8_t *message, int64_t size,
                             int64_t clock) {
    int64_t start = now_ns(clock);
    for (int64_t i = 0; i < count; i++) {
        if (recv(sockets[i], message, (size_t)size, 0) != size) {
            return -1;
        }
    }
    return now_ns(clock) - start;
}

// ns to move `size` bytes through every socket, in calls of at most `call_size`; -1 when a socket
// is closed or moves nothing within `patience` calls.
//
// A busy machine may deliver what was sent a little later, so a call that finds nothing is repeated.
static int64_t move_all(const int32_t *sockets, int64_t count, uint8_t *message, int64_t size,
                        int64_t call_size, bool sends, int64_t patience) {
    int64_t start = now_ns(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t left = size, looks = 0; left > 0;) {
            size_t wanted = (size_t)min64(left, call_size);
            int64_t moved = sends ? send(sockets[i], message, wanted, 0)
                                  : recv(sockets[i], message, wanted, 0);
            bool nothing_yet = moved < 0 && (errno == EAGAIN || errno == EINTR);
            if (moved == 0 || (moved < 0 && !nothing_yet) || ++looks > patience) {
                return -1;
            }
            left -= max64(0, moved);
        }
    }
    return now_ns(CLOCK_MONOTONIC) - start;
}

// Call epoll_wait until it has reported `count` sockets; whether it has.
static bool reported(int64_t epoll, int64_t count, int64_t patience) {
    struct epoll_event events[MOST_EVENTS];
    for (int64_t looks = 0; count > 0 && looks < patience; looks++) {
        int found = epoll_wait((int)epoll, events, (int)min64(count, MOST_EVENTS), 0);
        if (found < 0 && errno != EINTR) {
            return false;
        }
        count -= max64(0, found);
    }
    return count <= 0;
}

// One end of messages of `size` bytes that go there and back between two threads.
//
// They are received in calls of at most `call_size` bytes, once the set `epoll` has reported them;
// -1: there is none.
//
// Side 0 sends on all its sockets when `turn` is even, side 1 receives them and sends as many back
// when it is odd. `send_ns[i]` and `receive_ns[i]` are what all sockets of round i took. Returns -1
// when a socket is closed, or when the other side has not answered within `patience` looks; then
// `turn` is set to -1, and the other side gives up too.
EXPORTED int64_t exchange(const int32_t *sockets, int64_t count, int64_t epoll, uint8_t *message,
                          int64_t size, int64_t call_size, int64_t side, int64_t *turn,
                          int64_t *send_ns, int64_t *receive_ns, int64_t rounds,
                          int64_t patience) {
    for (int64_t step = 0; step < 2 * rounds; step++) {
        // Side 0 sends first, side 1 receives first.
        bool sends = (step + side) % 2 == 0;
        int64_t round = step / 2;
        int64_t wanted = 2 * round + (side == 0 ? 2 * (step % 2) : 1);
        for (int64_t looks = 0, now; (now = __atomic_load_n(turn, __ATOMIC_ACQUIRE)) != wanted;) {
            if (now < 0 || ++looks > patience) {
                __atomic_store_n(turn, -1, __ATOMIC_RELEASE);
                return -1;
            }
        }
        int64_t took = -1;
        if (sends || epoll < 0 || reported(epoll, count, patience / LOOKS_A_CALL)) {
            took = move_all(sockets, count, message, size, sends ? size : call_size, sends,
                            patience / LOOKS_A_CALL);
        }
        if (took < 0) {
            __atomic_store_n(turn, -1, __ATOMIC_RELEASE);
            return -1;
        }
        (sends ? send_ns : receive_ns)[round] = took;
        if (sends) {
            __atomic_store_n(turn, wanted + 1, __ATOMIC_RELEASE);
        }
    }
    return 0;
}

// ns of `polls` calls of epoll_wait that each return `ready` events; -1 when one does not.
EXPORTED int64_t poll_ready(int64_t epoll, int64_t ready, int64_t polls, int64_t clock) {
    struct epoll_event events[MOST_EVENTS];
    int64_t start = now_ns(clock);
    for (int64_t i = 0; i < polls; i++) {
        if (epoll_wait((int)epoll, events, MOST_EVENTS, 0) != ready) {
            return -1;
        }
    }
    return now_ns(clock) - start;
}

// ns to watch every socket and to stop watching it again; -1 when one can't be.
EXPORTED int64_t watch_and_leave(int64_t epoll, const int32_t *sockets, int64_t count,
                                 int64_t clock) {
    int64_t start = now_ns(clock);
    for (int64_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[i]};
        if (epoll_ctl((int)epoll, EPOLL_CTL_ADD, sockets[i], &event) < 0) {
            return -1;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        if (epoll_ctl((int)epoll, EPOLL_CTL_DEL, sockets[i], 0) < 0) {
            return -1;
        }
    }
    return now_ns(clock) - start;
}

// Wait for and receive one message of `size` bytes per element.
//
// `woken_ns[i]` is when epoll_wait returned for message i, on the monotonic clock, and
// `turn_cpu_ns[i]` the thread CPU time since the message before (of the first, nothing to go by).
// Returns -1 when nothing came for a second.
EXPORTED int64_t sleep_and_receive(int64_t epoll, int64_t socket, uint8_t *message, int64_t size,
                                   int64_t *woken_ns, int64_t *turn_cpu_ns, int64_t messages) {
    struct epoll_event event;
    int64_t turn_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int64_t i = 0; i < messages; i++) {
        if (epoll_wait((int)epoll, &event, 1, LONGEST_WAIT_MS) < 1) {
            return -1;
        }
        woken_ns[i] = now_ns(CLOCK_MONOTONIC);
        if (recv((int)socket, message, (size_t)size, 0) != size) {
            return -1;
        }
        int64_t turn_end = now_ns(CLOCK_THREAD_CPUTIME_ID);
        int64_t next_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        // Reading the clock is a system call itself, and each turn holds one of them.
        turn_cpu_ns[i] = turn_end - turn_start - (next_start - turn_end);
        turn_start = next_start;
    }
    return 0;
}

// Send one message of `size` bytes per element, each after a pause in which the receiver falls
// asleep. `start_ns[i]` and `end_ns[i]` stamp send i on the monotonic clock. Unless `ticking_epoll` is
// negative, the socket is put into that epoll set and taken out again before each pause, which queues
// RCU callbacks: a core that has some pending keeps its timer tick while it idles. Returns -1 when a
// call fails.
EXPORTED int64_t send_to_sleeper(int64_t socket, const uint8_t *message, int64_t size,
                                 int64_t pause_ns, int64_t *start_ns, int64_t *end_ns,
                                 int64_t messages, int64_t ticking_epoll) {
    int32_t watched = (int32_t)socket;
    for (int64_t i = 0; i < messages; i++) {
        int64_t resume = now_ns(CLOCK_MONOTONIC) + pause_ns;
        for (int64_t j = 0; ticking_epoll >= 0 && j < LEFT_TO_RCU; j++) {
            if (watch_and_leave(ticking_epoll, &watched, 1, CLOCK_MONOTONIC) < 0) {
                return -1;
            }
        }
        while (now_ns(CLOCK_MONOTONIC) < resume) {
        }
        start_ns[i] = now_ns(CLOCK_MONOTONIC);
        if (send((int)socket, message, (size_t)size, 0) != size) {
            return -1;
        }
        end_ns[i] = now_ns(CLOCK_MONOTONIC);
    }
    return 0;
}
