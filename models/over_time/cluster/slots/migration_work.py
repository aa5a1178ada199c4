"""What moving a key takes from the threads that take part, from a profile with origins."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from pydantic import Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ....prediction.uncertainty import Drawn, draw_ranges
from ....results.intervals import RelativeError


@dataclass(frozen=True, kw_only=True)
class MigrationWork:
    """CPU time in ns on one host; of main threads unless said otherwise.

    Attributes
    ----------
    setslot_source_ns, setslot_target_ns
        All SETSLOTs of one slot; they rewrite nodes.conf.
    fetch_ns
        One CLUSTER GETKEYSINSLOT.
    dump_call_ns, dump_key_ns, dump_ns_per_byte
        On the source, per MIGRATE, per key and per byte of it: find, serialise, send, delete.
    restore_call_ns, restore_key_ns, restore_ns_per_byte
        On the target.
    child_key_ns, child_ns_per_byte
        Atomic: the forked child writes a key.
    relay_key_ns, relay_ns_per_byte
        Atomic: the source takes it from the pipe and sends it.
    load_key_ns, load_ns_per_byte
        Atomic: the target executes it.
    job_ms
        Atomic: beginning, hand-over and clean-up of one job; mostly waits for the engine's cron,
        so the same on every host.
    """

    setslot_source_ns: float = 0.0
    setslot_target_ns: float = 0.0
    fetch_ns: float = 0.0
    dump_call_ns: float = 0.0
    dump_key_ns: float = 0.0
    dump_ns_per_byte: float = 0.0
    restore_call_ns: float = 0.0
    restore_key_ns: float = 0.0
    restore_ns_per_byte: float = 0.0
    child_key_ns: float = 0.0
    child_ns_per_byte: float = 0.0
    relay_key_ns: float = 0.0
    relay_ns_per_byte: float = 0.0
    load_key_ns: float = 0.0
    load_ns_per_byte: float = 0.0
    job_ms: float = 0.0

    def at_rate(self, factor: float) -> MigrationWork:
        """On a host whose threads are `factor` times as fast."""
        scaled = {
            name: value / factor
            for name, value in vars(self).items()
            if name.endswith(("_ns", "_per_byte"))
        }
        return replace(self, **scaled)

    def dump_ns(self, keys: float, value_bytes: float) -> float:
        """Time of the source's main thread for one MIGRATE, by its number of keys."""
        return self.dump_call_ns + keys * (self.dump_key_ns + value_bytes * self.dump_ns_per_byte)

    def restore_ns(self, keys: float, value_bytes: float) -> float:
        """The target's main thread, for the same."""
        per_key = self.restore_key_ns + value_bytes * self.restore_ns_per_byte
        return self.restore_call_ns + keys * per_key


class MigrationProfile(Record):
    """A file of `migration_work/`: engine, method, host it was measured on, and its numbers."""

    id: str
    title: str
    method: str = Field(pattern="^(key_by_key|atomic)$")
    sources: dict[str, Source]
    rate_per_ns: Quantity
    """Instructions a nanosecond of the host: `user_ipc` × `clock_ghz` of its profile."""
    work: dict[str, Quantity]
    error: RelativeError
    """How far off durations were that nothing was fitted to."""

    @model_validator(mode="after")
    def _check(self) -> MigrationProfile:
        known = {each.name for each in fields(MigrationWork)}
        for name in self.work:
            if name not in known:
                raise ValueError(f"work of {', '.join(sorted(known))}; found {name!r}")
        return self

    def on(self, rate_per_ns: float, *, draw: Drawn | None = None) -> MigrationWork:
        """The work at another host's rate of instructions. Kernel time is taken to scale alike.

        Parameters
        ----------
        draw
            Where in their ranges all numbers lie.
        """
        numbers = {name: each.best for name, each in self.work.items()}
        if draw is not None:
            numbers |= draw_ranges(self.id, ranges_of(self.work), draw)
        return MigrationWork(**numbers).at_rate(rate_per_ns / drawn_rate(self.rate_per_ns, draw))


def drawn_rate(rate_per_ns: Quantity, draw: Drawn | None) -> float:
    """The rate of the host that work was measured on: its value, or a draw."""
    if draw is None:
        return rate_per_ns.best
    # The same host in all profiles.
    drawn = draw_ranges("measured host", ranges_of({"rate": rate_per_ns}), draw)
    return drawn.get("rate", rate_per_ns.best)


def load_migration_profile(name: str) -> MigrationProfile:
    """A shipped profile: `redis-key-by-key` or `valkey-atomic`."""
    files = shipped("forecache.models.over_time.cluster.slots", "migration_work")
    if name not in files:
        raise InputError(f"migration: found {name!r}; valid is {did_you_mean(name, files)}")
    return parse(
        MigrationProfile,
        read_yaml(files[name]),
        file=f"models/over_time/cluster/slots/migration_work/{name}.yaml",
    )
