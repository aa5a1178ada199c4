"""What a scenario of `kind: serverless` says."""

from __future__ import annotations

import itertools
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from forecache.hwprofiles.files import FieldError, valid_text
from forecache.hwprofiles.record import Record as _Record

from ...prices.table import CacheEngine
from ...scenario.arrivals import RatePiece
from ...scenario.versions import EngineVersion
from ...scenario.workload import Mix
from ..cluster.schema import MOST_STEPS, Data
from .versions import Mechanisms, known_versions, load_version


class LoadMachines(_Record):
    """Number of load machines from then on."""

    at_s: float = Field(ge=0)
    """From when."""
    count: int = Field(ge=0, le=100_000)
    """How many."""


class ServerlessClients(_Record):
    """Machines with connections, each of which waits for its answer before it asks again."""

    machines: list[LoadMachines] = Field(
        default=[LoadMachines(at_s=0, count=1)], min_length=1, max_length=1_000
    )
    """How many there are, and from when."""
    connections: int = Field(default=20_000, ge=1, le=1_000_000)
    """Connections of each machine."""
    own_ms: float = Field(default=0.05, ge=0, le=1_000)
    """What a client itself adds to a request, between an answer and its next request."""
    timeout_s: float = Field(default=2.0, gt=0, le=3_600)
    """Time without an answer after which a client gives up an attempt."""
    retries: int = Field(default=3, ge=0, le=20)
    """Attempts after the first, with full jitter from 0.1 s on."""

    @model_validator(mode="after")
    def _in_order(self) -> ServerlessClients:
        times = [row.at_s for row in self.machines]
        if times[0] != 0 or any(a >= b for a, b in itertools.pairwise(times)):
            raise FieldError("machines", found=times, valid="times from 0 that increase")
        return self


class ServerlessDemand(_Record):
    """What is asked for; one of the four."""

    rate_rps: float | None = Field(default=None, gt=0, le=1e8)
    """Requests per second, sent whether or not earlier ones are answered."""
    rate_profile: list[RatePiece] | None = Field(default=None, min_length=1, max_length=10_000)
    """Rates in turn, repeated."""
    ramp_to_rps: float | None = Field(default=None, gt=0, le=1e8)
    """A ramp up to this rate, as fast as the cache allows: `ramp_growth` more every second, and
    `ramp_back` less when its driver sees requests wait."""
    ramp_growth: float = Field(default=0.025, gt=0, le=1)
    """Share by which a ramp grows in a second."""
    ramp_look_s: float = Field(default=0.75, gt=0, le=600)
    """How often the driver of a ramp looks whether requests wait."""
    ramp_back: float = Field(default=0.1, gt=0, lt=1)
    """Share by which a ramp falls back when they do."""
    closed_loop: bool = False
    """All connections send one request after the other."""
    mix: Mix = Mix(get=0.8, set=0.2)
    """Shares of GET and SET."""

    @model_validator(mode="after")
    def _one(self) -> ServerlessDemand:
        names = ("rate_rps", "rate_profile", "ramp_to_rps")
        given = [name for name in names if getattr(self, name) is not None]
        given += ["closed_loop"] if self.closed_loop else []
        if len(given) != 1:
            raise ValueError(
                f"one of {', '.join(names)}, closed_loop (found {', '.join(given) or 'none'})"
            )
        asked = {name for name, each in self.mix.commands.items() if each.share}
        if not asked <= {"get", "set"}:
            raise FieldError("mix", found=sorted(asked), valid="get and set")
        return self


class Minimum(_Record):
    """What is kept ready from then on."""

    at_s: float = Field(ge=0)
    """When it is set."""
    ecpu_per_s: float = Field(ge=0, le=15_000_000)
    """ECPU a second; billed even if unused."""


class UsageLimits(_Record):
    """What a user sets for a cache."""

    least: list[Minimum] = Field(default=[], max_length=1_000)
    """What it keeps ready; of time 0: what it was made with."""
    most_ecpu_per_s: float = Field(default=15_000_000, ge=1_000, le=15_000_000)
    """More is not let through."""
    least_gb: float = Field(default=0.0, ge=0, le=5_000)
    """Data that is billed at least, in GB of 10^9 bytes."""
    most_gb: float = Field(default=5_000, gt=0, le=5_000)
    """Data above which keys are evicted, or writes fail."""
    expiring: bool = True
    """Whether keys have a time to live, as only those are evicted (volatile-lru)."""
    reads_from_replicas: bool = False
    """Whether clients read from any replica (READONLY)."""


class ServerlessScenario(_Record):
    """A serverless cache over time, one point of a sweep."""

    kind: Literal["serverless"]
    """Which kind of scenario."""
    name: str | None = None
    """A name for people."""
    version: EngineVersion = "8.0"
    """Version of the service, in quotes: how it scales."""
    duration_s: float = Field(gt=0, le=7 * 86_400)
    """Simulated time."""
    step_s: float = Field(default=0.25, ge=0.01, le=5)
    """Step of the load."""
    report_s: float | None = Field(default=None, gt=0, le=86_400)
    """Interval of the results; a 300th of the duration without it."""
    data: Data = Data()
    """Keys that are asked for, and their values."""
    filled: float = Field(default=0.0, ge=0, le=1)
    """Share of these keys that is there at first."""
    shards: int = Field(default=1, ge=1, le=500)
    """Shards at first, with as many cores as they may have if there are several."""
    demand: ServerlessDemand
    """What is asked for."""
    clients: ServerlessClients = ServerlessClients()
    """Who asks."""
    limits: UsageLimits = UsageLimits()
    """What the user sets."""
    mechanisms: dict[str, Any] = Field(default={})
    """Mechanisms that differ from the version's; docs/serverless.md lists them."""
    prices: str = "elasticache-us-east-1"
    """A price table, or the path of one."""
    price_engine: CacheEngine = "valkey"
    """Whose prices: redis, valkey or memcached."""

    def in_force(self, *, draw: int | None = None, seed: int = 1) -> Mechanisms:
        """The mechanisms of its version with what it changes."""
        return load_version(self.version).mechanisms(self.mechanisms, draw=draw, seed=seed)

    @model_validator(mode="after")
    def _known(self) -> ServerlessScenario:
        if self.version not in known_versions():
            raise FieldError("version", found=self.version, valid=", ".join(known_versions()))
        fields = Mechanisms.model_fields
        for name, value in self.mechanisms.items():
            if name not in fields:
                raise FieldError(f"mechanisms.{name}", found=value, valid=", ".join(fields))
            try:
                load_version(self.version).mechanisms({name: value})
            except ValidationError as error:
                told = valid_text(error.errors()[0])
                raise FieldError(f"mechanisms.{name}", found=value, valid=told) from None
        limits = self.limits
        for index, row in enumerate(limits.least):
            if row.ecpu_per_s > limits.most_ecpu_per_s:
                valid = f"at most limits.most_ecpu_per_s ({limits.most_ecpu_per_s:g})"
                name = f"limits.least[{index}].ecpu_per_s"
                raise FieldError(name, found=row.ecpu_per_s, valid=valid)
        if limits.least_gb > limits.most_gb:
            valid = f"at most limits.most_gb ({limits.most_gb:g})"
            raise FieldError("limits.least_gb", found=limits.least_gb, valid=valid)
        if self.step_s > min(self.clients.timeout_s / 2, self.duration_s):
            valid = "at most the duration and half the clients' timeout"
            raise FieldError("step_s", found=self.step_s, valid=valid)
        if self.duration_s / self.step_s > MOST_STEPS:
            valid = f"at most {MOST_STEPS} steps of the load"
            raise FieldError("duration_s", found=self.duration_s, valid=valid)
        return self
