"""New connections: a Poisson process whose draws are addressed by number.

They wake no thread: the main thread accepts what has arrived when it has polled.
"""

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.streams import draw4, exponential_ps, to_unit

from .. import layout as at
from .inline import inlined, unlikely

CONNECTION_DRAWS = 4


@inlined
def plan_connection(m, since_ps):
    """Draw when the next connection arrives: one gap after the one before it."""
    index = m[at.CONNECTION]
    gap, _, _, _ = draw4(m[at.SEED], m[at.REPLICATION], 0, CONNECTION_DRAWS, index)
    m[at.CONNECTION] = index + 1
    m[at.CONNECTION_DUE_PS] = since_ps + exponential_ps(
        to_unit(gap), float(m[at.CONNECTION_GAP_PS])
    )


@inlined
def plan_first_connection(m):
    """Before the server's first step."""
    if m[at.CONNECTION_GAP_PS] > 0:
        plan_connection(m, 0)
    else:
        m[at.CONNECTION_DUE_PS] = INFINITY_PS


@inlined
def take_connections(m, now):
    """How many connections have arrived since the last call."""
    taken = 0
    while unlikely(m[at.CONNECTION_DUE_PS] <= now):
        taken += 1
        plan_connection(m, m[at.CONNECTION_DUE_PS])
    m[at.HANDSHAKES] += taken
    return taken


@inlined
def accept_alone(m, now):
    """Accept what has arrived, handshakes included; returns the duration in ps."""
    taken = take_connections(m, now)
    m[at.INLINE_HANDSHAKES] += taken
    return taken * (m[at.ACCEPT_PS] + m[at.HANDSHAKE_PS])
