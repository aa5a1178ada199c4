"""What a peer on another CPU adds to an epoll_ctl, beside what it adds to a send and a receive.

`python benchmarks/epoll_changes.py` passes messages there and back on 64 connections, between ends
of one thread and between two threads on two CPUs. After each round one end is put into an epoll set
and taken out again. `hwprofiles/speed.py` has what comes out (`PEER_CHANGES`).
"""

import os
import select
import statistics
import threading

import numpy as np

from forecache.hwprofiles.capture import sockets
from forecache.hwprofiles.capture.collect import pin

CONNECTIONS, ROUNDS = 64, 500
CLOCK = sockets.CLOCK_MONOTONIC


def alone_ns() -> tuple[float, float]:
    """Of a send and a receive, and of an epoll_ctl, both ends in one thread."""
    buffer = np.zeros(sockets.SMALL_BYTES, dtype=np.uint8)
    messages, changes = [], []
    with sockets.connections("tcp", CONNECTIONS) as pairs, select.epoll() as other:
        clients, servers = pairs.descriptors("clients"), pairs.descriptors("servers")
        for _ in range(ROUNDS):
            took = sockets.send_all(clients, buffer, CLOCK)
            took += sockets.receive_all(servers, buffer, CLOCK)
            took += sockets.send_all(servers, buffer, CLOCK)
            took += sockets.receive_all(clients, buffer, CLOCK)
            messages.append(took / (2 * CONNECTIONS))
            took = sockets.watch_and_leave(other.fileno(), clients, CLOCK)
            changes.append(took / (2 * CONNECTIONS))
    return statistics.median(messages), statistics.median(changes)


def across_ns(cpus: list[int]) -> tuple[float, float]:
    """The same between two threads."""
    messages, changes = [], []
    barrier, turn = threading.Barrier(2), np.zeros(16, dtype=np.int64)
    with sockets.connections("tcp", CONNECTIONS) as pairs, select.epoll() as other:
        ends = pairs.descriptors("clients"), pairs.descriptors("servers")

        def run(side: int) -> None:
            pin(cpus[side])
            buffer = np.zeros(sockets.SMALL_BYTES, dtype=np.uint8)
            took_ns = np.zeros((2, 1), dtype=np.int64)
            for _ in range(ROUNDS):
                turn[0] = 0
                barrier.wait()
                passed = sockets.exchange(ends[side], -1, buffer, len(buffer), side, turn, took_ns)
                assert passed == 0, "a message got stuck; is the machine busy?"
                messages.append(float(took_ns.sum()) / CONNECTIONS)
                if side == 0:
                    took = sockets.watch_and_leave(other.fileno(), ends[0], CLOCK)
                    changes.append(took / (2 * CONNECTIONS))
                barrier.wait()

        threads = [threading.Thread(target=run, args=(side,)) for side in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return statistics.median(messages), statistics.median(changes)


def main() -> None:
    """Print both, and the share of what a peer adds to messages that it adds to changes."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    pin(cpus[0])
    alone, across = alone_ns(), across_ns(cpus)
    for name, one, two in zip(("send and receive", "epoll_ctl"), alone, across, strict=True):
        print(f"{name:16} {one:6.0f} ns in one thread, {two:6.0f} across CPUs: {two / one:.2f}")
    more = [two / one - 1.0 for one, two in zip(alone, across, strict=True)]
    print(f"share: {more[1] / more[0]:.2f}")


if __name__ == "__main__":
    main()
