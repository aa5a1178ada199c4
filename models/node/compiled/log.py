"""What writes add to the append-only file and to the replication stream."""

from .. import layout as at
from .inline import inlined
from .network import stream_leaves


@inlined
def flush_ps(m, now):
    """Hand logged writes to the kernel, beginning now; returns how long that takes."""
    if m[at.LOGGED_BYTES] == 0:
        return 0
    if m[at.REPLICAS] > 0 and not m[at.SAME_HOST]:
        stream_leaves(m, m[at.REPLICAS], m[at.LOGGED_BYTES], now)
    m[at.LOGGED_BYTES] = 0
    m[at.FLUSHES] += 1
    return m[at.FLUSH_PS]
