"""What a load sends: the specification, its check, and the commands in the protocol's bytes."""

from dataclasses import dataclass, field
from math import gcd

from forecache.sim.errors import InputError

from .protocols import RESP, Protocol

_KEY_DIGITS = 12
_LARGEST_BATCH_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """Which keys requests name.

    Attributes
    ----------
    kind
        `uniform`, `zipf` or `hot_set`.
    exponent
        Zipf: probability of rank r is proportional to r**-exponent.
    hot_keys_fraction, hot_requests_fraction
        Hot set: this share of the requests goes to this share of the keys.
    """

    kind: str = "uniform"
    exponent: float = 0.99
    hot_keys_fraction: float = 0.1
    hot_requests_fraction: float = 0.9


@dataclass(frozen=True, kw_only=True)
class LoadSpec:
    """What to send.

    Attributes
    ----------
    keys
        Number of distinct keys; key number i is the text of `first_key` + i in a fixed width.
    key_bytes
        Length of a key.
    value_sizes
        Pairs of (bytes, weight). A key keeps its size for good, drawn with these weights.
    get_fraction
        Share of GETs; the rest are SETs of existing keys.
    pipeline
        Requests sent together on one connection.
    clients
        Connections.
    rate_rps
        None: closed loop. Otherwise requests per second that are due, in Poisson batches.
    think_us
        Closed loop: pause of a connection between the last reply and its next batch, constant.
    popularity
        Which keys.
    seed
        Seed of all draws.
    threads
        Generator threads; the connections are dealt out between them.
    """

    keys: int
    key_bytes: int = 16
    value_sizes: tuple[tuple[int, float], ...] = ((16, 1.0),)
    get_fraction: float = 1.0
    pipeline: int = 1
    clients: int = 50
    rate_rps: float | None = None
    think_us: float = 0.0
    popularity: Popularity = field(default_factory=Popularity)
    seed: int = 1
    threads: int = 1
    first_key: int = 0

    def __post_init__(self) -> None:
        largest = min(10 ** key_digits(self) - self.first_key, 2**32 - 1)
        limits: list[tuple[str, float, bool, str]] = [
            ("key_bytes", self.key_bytes, 1 <= self.key_bytes <= 65536, "1 to 65536"),
            ("keys", self.keys, 1 <= self.keys <= largest, f"1 to {largest} at this key_bytes"),
            ("get_fraction", self.get_fraction, 0 <= self.get_fraction <= 1, "0 to 1"),
            ("pipeline", self.pipeline, 1 <= self.pipeline <= 100_000, "1 to 100000"),
            ("clients", self.clients, 1 <= self.clients <= 10_000, "1 to 10000"),
            ("think_us", self.think_us, 0 <= self.think_us <= 1e8, "0 to 1e8"),
            ("threads", self.threads, 1 <= self.threads <= self.clients, "1 to clients"),
            ("rate_rps", self.rate_rps or 1.0, (self.rate_rps or 1.0) > 0, "above 0"),
        ]
        for size, weight in self.value_sizes or ((-1, 1.0),):
            limits.append(("value_sizes", size, 0 <= size <= 64 * 2**20, "0 to 64 MiB"))
            limits.append(("value_sizes weight", weight, weight > 0, "above 0"))
        hot = self.popularity
        if hot.kind not in ("uniform", "zipf", "hot_set"):
            raise InputError(
                f"load: popularity: found {hot.kind!r}; valid is uniform, zipf or hot_set."
            )
        if hot.kind == "zipf":
            limits.append(("exponent", hot.exponent, 0 < hot.exponent <= 10, "above 0, to 10"))
        if hot.kind == "hot_set":
            for name in ("hot_keys_fraction", "hot_requests_fraction"):
                value = getattr(hot, name)
                limits.append((name, value, 0 < value < 1, "between 0 and 1"))
        for name, value, good, valid in limits:
            if not good:
                raise InputError(f"load: {name}: found {value}; valid is {valid}.")
        largest_batch = self.pipeline * (max(size for size, _ in self.value_sizes) + 64)
        if largest_batch > _LARGEST_BATCH_BYTES:
            raise InputError(
                f"load: pipeline of {self.pipeline} with values of up to "
                f"{max(size for size, _ in self.value_sizes)} bytes: found {largest_batch} bytes "
                f"in one batch; valid is at most {_LARGEST_BATCH_BYTES}."
            )


def key_digits(spec: LoadSpec) -> int:
    """How many digits at the end of a key are its number."""
    return min(spec.key_bytes, _KEY_DIGITS)


def scatter_stride(keys: int) -> int:
    """A multiplier coprime to the number of keys, near its golden section.

    rank * stride modulo keys then visits every key once and puts neighbours in rank far apart.
    """
    stride = max(int(keys * 0.6180339887), 1)
    while gcd(stride, keys) != 1:
        stride += 1
    return stride


def encode_commands(
    spec: LoadSpec, protocol: Protocol = RESP
) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """The commands with zeros for the key's digits, end to end, and where each lies.

    Returns
    -------
    text : bytes
    commands : list of tuple
        The GET first, then a SET for each value size: the fields of `struct command` in
        `native/loadgen.h`.
    """
    digits = key_digits(spec)
    prefix = (b"key:" + b"k" * spec.key_bytes)[: spec.key_bytes - digits]
    parts = [protocol.get(prefix, spec.key_bytes)]
    # Letters, so that no engine stores the value as an integer.
    parts += [
        protocol.set_value(prefix, spec.key_bytes, b"v" * size) for size, _ in spec.value_sizes
    ]
    weights = [weight for _, weight in spec.value_sizes]
    shares = [0.0, *(sum(weights[: i + 1]) / sum(weights) for i in range(len(weights)))]
    commands = []
    text = b""
    for (start, end), share in zip(parts, shares, strict=True):
        command = start + b"0" * digits + end
        commands.append((len(text), len(command), len(start), round(share * 2**32)))
        text += command
    return text, commands
