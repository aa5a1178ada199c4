"""When requests fall due in an open loop.

Each generator thread has a source: the number of its next request, and where its time lies in the
pieces of constant rate.
"""

from forecache.sim.streams import draw4, exponential_ps, to_unit

from .. import layout as at
from .inline import inlined, unlikely

ARRIVAL_DRAWS = 2
PIECE_DRAWS = 9
UNIT = 1 << 40  # an exponential of mean one is drawn as a whole number of this part


@inlined
def source_row(m, source):
    """Where the state of a thread's source begins."""
    return m[at.SOURCE_ROWS] + source * at.SOURCE_WORDS


@inlined
def begin_piece(m, row, number, since_ps):
    """The next piece of constant rate begins."""
    kind = number % m[at.PIECES]
    lasts_ps = m[m[at.PIECE_TABLE] + kind]
    if m[at.RANDOM_PIECES]:
        # The same for all threads, so that a burst is a burst.
        drawn, _, _, _ = draw4(m[at.SEED], m[at.REPLICATION], 0, PIECE_DRAWS, number)
        lasts_ps = exponential_ps(to_unit(drawn), float(lasts_ps))
    m[row + at.PIECE] = number
    m[row + at.PIECE_ENDS_PS] = since_ps + lasts_ps


@inlined
def piece_gap_ps(m, row):
    """Mean time between two requests of a thread in the present piece; 0: none come."""
    kind = m[row + at.PIECE] % m[at.PIECES]
    return m[m[at.PIECE_TABLE] + m[at.PIECES] + kind]


@inlined
def varying_arrival(m, row, gap, now):
    """When the next request falls due whose exponential is drawn, in pieces of constant rate.

    Exponentials of mean one are used up at the rate of the piece that time is in.
    """
    left = exponential_ps(to_unit(gap), float(UNIT)) / UNIT
    while True:
        gap_ps = piece_gap_ps(m, row)
        ends_ps = m[row + at.PIECE_ENDS_PS]
        if gap_ps > 0:
            if left * gap_ps < ends_ps - now:
                return now + int(left * gap_ps)
            left -= (ends_ps - now) / gap_ps
        now = ends_ps
        begin_piece(m, row, m[row + at.PIECE] + 1, ends_ps)


@inlined
def next_arrival(m, source, index, now):
    """When a thread's request of this number falls due, where the one before did so now."""
    if unlikely(m[at.TRACED] > 0):
        number = source + index * m[at.GENERATORS]
        again = number // m[at.TRACED]
        row = number - again * m[at.TRACED]
        return again * m[at.TRACE_PERIOD_PS] + m[m[at.TRACE_TABLE] + row]
    gap, _, _, _ = draw4(m[at.SEED], m[at.REPLICATION], source, ARRIVAL_DRAWS, index)
    if unlikely(m[at.PIECES] > 0):
        return varying_arrival(m, source_row(m, source), gap, now)
    return now + exponential_ps(to_unit(gap), float(m[at.MEAN_INTERARRIVAL_PS]))


@inlined
def given_code(m, source, index):
    """The row of the command code that a trace says a thread's request is; 0: it is drawn."""
    if unlikely(m[at.TRACED] > 0):
        row = (source + index * m[at.GENERATORS]) % m[at.TRACED]
        return m[m[at.TRACE_TABLE] + m[at.TRACED] + row]
    return 0
