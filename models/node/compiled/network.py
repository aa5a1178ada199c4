"""The server's network interface: what delays messages in transit.

Three limits hold at once, and a message arrives when the last of them lets it: the bandwidth of its
direction, the packets of both directions together, and what one connection may carry. Bytes and
packets queue behind those of all connections; while one connection waits for its own limit, others
overtake it. At a server with interrupt cores, one of them takes a request's packets to its socket:
each connection has its core.
"""

from .. import layout as at
from .inline import inlined, unlikely


@inlined
def packets_of(m, size_bytes):
    """Packets of a message."""
    if unlikely(size_bytes > m[at.SEGMENT_SIZE_BYTES]):
        return (size_bytes - 1) // m[at.SEGMENT_SIZE_BYTES] + 1
    return 1


@inlined
def passes(m, free, flows, client, packets, size_bytes, now):
    """When the last limit is behind a message that is sent now, in ps.

    `free` and `flows` are the fields of its direction.
    """
    framed_bytes = size_bytes + packets * m[at.HEADER_BYTES]
    sent = max(now, m[free]) + ((framed_bytes * m[at.WIRE_PS_PER_KIB]) >> 10)
    counted = max(now, m[at.PACKETS_FREE_PS]) + packets * m[at.PACKET_PS]
    m[free] = sent
    m[at.PACKETS_FREE_PS] = counted
    last = max(sent, counted)
    if m[at.FLOW_PS_PER_KIB] > 0:
        flow = m[flows] + ((client - m[at.CLIENT_ROWS]) >> at.CLIENT_SHIFT)
        alone = max(now, m[flow]) + ((framed_bytes * m[at.FLOW_PS_PER_KIB]) >> 10)
        m[flow] = alone
        last = max(last, alone)
    return last


@inlined
def interrupted(m, client, packets, arrived):
    """When the interrupt core of a client's connection has put its packets into the socket."""
    number = (client - m[at.CLIENT_ROWS]) >> at.CLIENT_SHIFT
    core = m[at.INTERRUPTS_FREE_PS] + number % m[at.INTERRUPT_CORES]
    taking = packets * m[at.SOFTIRQ_PS]
    m[at.INTERRUPT_PS] += taking
    done = max(arrived, m[core]) + taking
    m[core] = done
    return done


@inlined
def request_arrives(m, client, size_bytes, now):
    """When what a client sends now is in its socket at the server."""
    packets = packets_of(m, size_bytes)
    m[at.PACKETS_IN] += packets
    last = passes(m, at.NIC_IN_FREE_PS, at.FLOWS_IN_FREE_PS, client, packets, size_bytes, now)
    arrived = last + m[at.ONE_WAY_PS]
    if m[at.INTERRUPT_CORES] > 0:
        return interrupted(m, client, packets, arrived)
    return arrived


@inlined
def reply_arrives(m, client, size_bytes, now):
    """When what the server sends now is in its socket at the client."""
    packets = packets_of(m, size_bytes)
    m[at.PACKETS_OUT] += packets
    last = passes(m, at.NIC_OUT_FREE_PS, at.FLOWS_OUT_FREE_PS, client, packets, size_bytes, now)
    return last + m[at.ONE_WAY_PS]


@inlined
def stream_leaves(m, copies, size_bytes, now):
    """Copies of the writes leave for replicas, each on a connection of its own."""
    packets = copies * packets_of(m, size_bytes)
    framed_bytes = copies * size_bytes + packets * m[at.HEADER_BYTES]
    leaves = max(now, m[at.NIC_OUT_FREE_PS])
    m[at.NIC_OUT_FREE_PS] = leaves + ((framed_bytes * m[at.WIRE_PS_PER_KIB]) >> 10)
    m[at.PACKETS_FREE_PS] = max(now, m[at.PACKETS_FREE_PS]) + packets * m[at.PACKET_PS]
    m[at.PACKETS_OUT] += packets
    m[at.WIRE_BYTES_OUT] += copies * size_bytes
