"""The server's network interface: what delays messages in transit.

Three limits hold at once, and a message arrives when the last of them lets it: the bandwidth of its
direction, the packets of both directions together, and what one connection may carry. Bytes and
packets queue behind those of all connections; while one connection waits for its own limit, others
overtake it. At a server with interrupt cores, one of them takes a request's packets to its socket:
each connection has its core.
"""

from __future__ import annotations

from ..setup import NodeSetup, NodeTimes


class LinkDirection:
    """One direction of the interface: until when its bytes, in all and by client, are on the wire.

    Times are in ps.
    """

    def __init__(self, clients: int) -> None:
        self.free_ps = 0
        self.flow_free_ps = [0] * clients


class SimulatedNetwork:
    """Messages between the load generator and a server on another host."""

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        self.times = times
        self.setup = setup
        self.requests, self.replies = LinkDirection(setup.clients), LinkDirection(setup.clients)
        self.packets_free_ps = 0
        self.core_free_ps = [0] * setup.interrupt_cores
        """When each interrupt core has done what it has."""

    def packets(self, size_bytes: int) -> int:
        """Packets of a message."""
        return -(-size_bytes // self.setup.segment_size_bytes)

    def busy_cores(self, now: int) -> int:
        """Interrupt cores that have something to do."""
        return sum(free_ps > now for free_ps in self.core_free_ps)

    def is_busy(self, client: int, now: int) -> bool:
        """Whether the interrupt core of a client's connection has something to do."""
        return self.core_free_ps[client % self.setup.interrupt_cores] > now

    def request_arrives(self, client: int, size_bytes: int, now: int, *, interrupt_ps: int) -> int:
        """When what a client sends now is in its socket at the server.

        Parameters
        ----------
        interrupt_ps
            How long an interrupt core takes for it, where there are any.
        """
        arrived_ps = self._passes(self.requests, client, size_bytes, now) + self.times.one_way_ps
        if self.setup.interrupt_cores == 0:
            return arrived_ps
        core = client % self.setup.interrupt_cores
        done_ps = max(arrived_ps, self.core_free_ps[core]) + interrupt_ps
        self.core_free_ps[core] = done_ps
        return done_ps

    def reply_arrives(self, client: int, size_bytes: int, now: int) -> int:
        """When what the server sends now is in its socket at the client."""
        return self._passes(self.replies, client, size_bytes, now) + self.times.one_way_ps

    def stream_leaves(self, copies: int, size_bytes: int, now: int) -> int:
        """Copies of the writes leave for replicas, each on a connection of its own.

        Returns their packets.
        """
        packets = copies * self.packets(size_bytes)
        framed_bytes = copies * size_bytes + packets * self.setup.header_bytes
        leaves_ps = max(now, self.replies.free_ps)
        self.replies.free_ps = leaves_ps + (framed_bytes * self.times.wire_ps_per_kib >> 10)
        self.packets_free_ps = max(now, self.packets_free_ps) + packets * self.times.packet_ps
        return packets

    def _passes(self, direction: LinkDirection, client: int, size_bytes: int, now: int) -> int:
        """When the last limit is behind a message that is sent now."""
        times = self.times
        packets = self.packets(size_bytes)
        framed_bytes = size_bytes + packets * self.setup.header_bytes
        sent_ps = max(now, direction.free_ps) + (framed_bytes * times.wire_ps_per_kib >> 10)
        counted_ps = max(now, self.packets_free_ps) + packets * times.packet_ps
        flow_ps = framed_bytes * times.flow_ps_per_kib >> 10
        alone_ps = max(now, direction.flow_free_ps[client]) + flow_ps
        direction.free_ps, self.packets_free_ps = sent_ps, counted_ps
        direction.flow_free_ps[client] = alone_ps
        return max(sent_ps, counted_ps, alone_ps)
