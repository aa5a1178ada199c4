"""What the load generator puts on the wire and takes off it, compiled.

Encodes batches of GET and SET with the key digits patched into pre-encoded commands, and counts
the replies in what arrives. Settings, counters and per-connection state are int64 arrays indexed
by the names below; the loop that uses them is in `loadgen_kernel`.

Draws are addressed by the number of the request (`forecache.sim.streams`), so a batch that the
socket took only in part is simply encoded again when the rest can be sent: nothing is buffered
per connection, and the generator leaves the caches to the server.
"""

import math

import numpy as np
from numba import float64, int64, njit, types, uint8

from forecache.sim.numba_functions import draw4, to_unit, uniform

from .libc import c_memcpy

# Settings: int64, one array a thread, constant during a run.
(
    CLIENTS,
    PIPELINE,
    KEYS,
    SEQUENTIAL,  # 1: request number i names key i, which is how a data set is loaded
    FIRST,  # number of the first request of this thread
    LIMIT,  # number after the last one
    SEED,
    STREAM,  # of the random draws: the number of the thread
    OPEN_LOOP,
    THINK_NS,
    HOT_KEYS,  # size of the hot set; 0 when popularity is not a hot set
    KEY_DIGITS,
    FIRST_KEY,  # number in the name of key 0
    TEMPLATES,
    UNIFORM_TEMPLATE,  # the only template a run uses, or -1 for a mix
    DEADLINE_NS,  # on CLOCK_MONOTONIC: whatever happens, return by then
    STRIDE,  # multiplier that scatters popularity ranks over the keys
    SETTINGS,
) = range(18)

# Real settings: float64.
GET_FRACTION, RATE_PER_NS, ZIPF_EXPONENT, HOT_SHARE, REALS = range(5)

# Counters: int64, written by the thread, read by others at any time.
(
    REQUESTS,  # replies received
    LOOPS,
    EVENTS,
    RECVS,
    SENDS,
    RECEIVED_BYTES,
    SENT_BYTES,
    ERRORS,
    MISSES,
    BATCHES,
    PARTIAL_SENDS,
    LATE_NS,  # open loop: worst delay of a send behind its intended time
    STATUS,
    COUNTERS,
) = range(14)

RUNNING, FINISHED, CLOSED, PROTOCOL, TIMED_OUT, SYSTEM = range(6)

# The control word, written by others: connections send and are measured, or finish.
WARM_UP, MEASURE, STOP = range(3)

# State of one connection.
(
    OUTSTANDING,
    START_NS,
    BASE,
    COUNT,
    SENT,
    WANT_OUT,
    MODE,
    KIND,
    NUMBER,
    NEGATIVE,
    FD,
    DUE_NS,  # when a waiting connection may send again
    STATE,
) = range(13)
_AT_TYPE, _IN_LINE, _IN_BULK = range(3)

# Template table: offset and length of the encoded command, offset of its key digits, and the
# cumulative share (of 2**32) of SETs with this value size; row 0 is the GET.
T_OFFSET, T_LENGTH, T_KEY, T_SHARE, T_FIELDS = range(5)

PURPOSE_KEY, PURPOSE_SIZE, PURPOSE_GAP, PURPOSE_RANK = range(4)


@njit(float64(float64, float64), nogil=True, cache=True)
def _zipf_integral(x: float, exponent: float) -> float:
    """Integral of t**-exponent from 1 to x."""
    log_x = math.log(x)
    power = (1.0 - exponent) * log_x
    if abs(power) < 1e-8:
        return log_x * (1.0 + 0.5 * power)
    return math.expm1(power) / (1.0 - exponent)


@njit(float64(float64, float64), nogil=True, cache=True)
def _zipf_inverse(area: float, exponent: float) -> float:
    """The x with `_zipf_integral(x) == area`."""
    power = area * (1.0 - exponent)
    if abs(power) < 1e-8:
        return math.exp(area * (1.0 - 0.5 * power))
    return math.exp(math.log1p(max(power, -1.0 + 1e-15)) / (1.0 - exponent))


@njit(int64(int64, float64, int64, int64, int64), nogil=True, cache=True)
def zipf_rank(keys: int, exponent: float, seed: int, stream: int, index: int) -> int:
    """A rank 0 .. keys-1 with probability proportional to (rank + 1)**-exponent.

    Rejection-inversion (W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from
    monotone discrete distributions", ACM TOMACS 6(3), 1996): exact, no table, so it takes no cache
    from the server. Attempt n of a draw has the address index * 2**8 + n.
    """
    low = _zipf_integral(1.5, exponent) - 1.0
    high = _zipf_integral(keys + 0.5, exponent)
    for attempt in range(256):
        unit = uniform(seed, 0, stream, PURPOSE_RANK, index * 256 + attempt)
        area = high + unit * (low - high)
        x = _zipf_inverse(area, exponent)
        k = min(max(int(x + 0.5), 1), keys)
        if area >= _zipf_integral(k + 0.5, exponent) - math.exp(-exponent * math.log(float(k))):
            return k - 1
    return 0


@njit(
    int64(int64[::1], float64[::1], int64, types.uint32, types.uint32),
    nogil=True,
    cache=True,
)
def _pick_key(settings: np.ndarray, reals: np.ndarray, index: int, word_0: int, word_1: int) -> int:
    keys = settings[KEYS]
    if settings[SEQUENTIAL] == 1:
        return index % keys
    if reals[ZIPF_EXPONENT] > 0.0:
        rank = zipf_rank(keys, reals[ZIPF_EXPONENT], settings[SEED], settings[STREAM], index)
        # Neighbours in rank must not be neighbours in memory: keys are loaded in order.
        return (rank * settings[STRIDE]) % keys
    hot = settings[HOT_KEYS]
    if hot > 0:
        unit = to_unit(word_1)
        pick = np.uint64(word_0)
        if unit < reals[HOT_SHARE]:
            rank = int((pick * np.uint64(hot)) >> np.uint64(32))
        else:
            rank = hot + int((pick * np.uint64(keys - hot)) >> np.uint64(32))
        return (rank * settings[STRIDE]) % keys
    return int((np.uint64(word_0) * np.uint64(keys)) >> np.uint64(32))


@njit(
    int64(int64[::1], float64[::1], int64[:, ::1], int64, types.uint32),
    nogil=True,
    cache=True,
)
def _pick_template(
    settings: np.ndarray, reals: np.ndarray, templates: np.ndarray, key: int, word: int
) -> int:
    """Row of the command: the GET, or the SET with the size that belongs to this key."""
    if settings[UNIFORM_TEMPLATE] >= 0:
        return settings[UNIFORM_TEMPLATE]
    if to_unit(word) < reals[GET_FRACTION]:
        return 0
    # The size is a function of the key, so overwriting keeps the data set as it was loaded.
    size_word, _, _, _ = draw4(settings[SEED], 0, 0, PURPOSE_SIZE, key)
    for row in range(1, settings[TEMPLATES]):
        if int(size_word) < templates[row, T_SHARE]:
            return row
    return settings[TEMPLATES] - 1


@njit(
    int64(int64[::1], float64[::1], int64[:, ::1], uint8[::1], uint8[::1], int64, int64),
    nogil=True,
    cache=True,
)
def encode_batch(
    settings: np.ndarray,
    reals: np.ndarray,
    templates: np.ndarray,
    text: np.ndarray,
    out: np.ndarray,
    base: int,
    count: int,
) -> int:
    """Encode requests `base` .. `base + count - 1` into `out`; returns their length in bytes.

    In a run of one template `out` already holds `pipeline` copies and only the keys are patched.
    """
    length = 0
    digits = settings[KEY_DIGITS]
    for k in range(count):
        index = base + k
        word_0, word_1, word_2, _ = draw4(settings[SEED], 0, settings[STREAM], PURPOSE_KEY, index)
        key = _pick_key(settings, reals, index, word_0, word_1)
        row = _pick_template(settings, reals, templates, key, word_2)
        if settings[UNIFORM_TEMPLATE] < 0:
            c_memcpy(
                out[length:].ctypes.data,
                text[templates[row, T_OFFSET] :].ctypes.data,
                templates[row, T_LENGTH],
            )
        place = length + templates[row, T_KEY] + digits - 1
        rest = np.uint64(key + settings[FIRST_KEY])
        for _ in range(digits):
            quotient = rest // np.uint64(10)
            out[place] = np.uint8(48 + (rest - quotient * np.uint64(10)))
            rest = quotient
            place -= 1
        length += templates[row, T_LENGTH]
    return length


@njit(int64(uint8[::1], int64, int64[::1], int64[::1]), nogil=True, cache=True)
def scan_replies(buffer: np.ndarray, size: int, state: np.ndarray, counters: np.ndarray) -> int:
    """Count the replies that end in these bytes; a reply may start or end in other calls.

    Counts `-` replies as errors and null bulk strings as misses. Returns -1 for anything that is
    no reply to GET or SET.
    """
    done = 0
    mode = state[MODE]
    kind = state[KIND]
    number = state[NUMBER]
    negative = state[NEGATIVE]
    i = 0
    while i < size:
        if mode == _AT_TYPE:
            kind = int(buffer[i])
            i += 1
            number = 0
            negative = 0
            mode = _IN_LINE
            if kind != 36 and kind != 43 and kind != 45 and kind != 58:  # $ + - :
                return -1
        elif mode == _IN_LINE:
            byte = buffer[i]
            i += 1
            if byte == 10:
                mode = _AT_TYPE
                if kind == 36 and negative == 0:
                    mode = _IN_BULK
                    number += 2
                else:
                    done += 1
                    if kind == 36:
                        counters[MISSES] += 1
                    elif kind == 45:
                        counters[ERRORS] += 1
            elif kind == 36:
                if byte == 45:
                    negative = 1
                elif byte >= 48 and byte <= 57:
                    number = number * 10 + (byte - 48)
                elif byte != 13:
                    return -1
        else:
            step = min(size - i, number)
            i += step
            number -= step
            if number == 0:
                done += 1
                mode = _AT_TYPE
    state[MODE] = mode
    state[KIND] = kind
    state[NUMBER] = number
    state[NEGATIVE] = negative
    return done
