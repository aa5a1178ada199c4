"""Reading a study: the few look-ups that figures, page and terminal share.

A study is the JSON-able dict that `forecache study` builds:

- `title`, `created`, `scenario_name`, `warnings`
- `targets`: one for each host, with
  `name`, `host` (`id`, `title`, `cores`, `kind`), `engine` (`id`, `version`, `depth`), `scenario`,
  `points` (one for each setting), `load_curve` (points with `offered_rps`, at the recommended
  setting), `recommendation`, `warnings`
- a point: `given`, `throughput_rps`, `mean_ms`, `p50_ms`, `p90_ms`, `p99_ms`, `p999_ms` (each an
  estimate), `main_thread_utilisation`, `io_thread_utilisation` (a list),
  `load_generator_utilisation`, `network_limits` (share of each in use, by name),
  `interrupt_utilisation`, `core_utilisation`, `quota_utilisation`, `throttled_periods`,
  `memory_bandwidth` (`gb_per_s`, `utilisation`, `latency_factor`),
  `server_cpu_us_per_request` (what requests need), `spinning_cpu_us_per_request` (what threads
  spend on looking for work besides), `bottleneck`, `next_bottleneck`,
  `verdict`, `limit_rps` (the highest load that meets the objective, of this setting at any load),
  `headroom_rps`, `objective_probability`, `warnings`, `stages` (`stage`, `thread`,
  `us_per_request`), `uncertainty`;
  of an overloaded point the latencies are null, and `backlog_growth_rps` says by how many requests
  a second its backlog grows (an estimate; null where it does not)
- an estimate: `value`, `low`, `high`, the bounds of the 95% interval; `high` is null
  for a latency that some of the uncertain numbers put beyond any bound
- a recommendation: `setting` (null where none meets the objective), `closest` (then which comes
  closest to it: the rest is about that one), `knee`, `throughput_rps`, `regret` (a row for each
  other setting: the setting, `throughput_loss`, `low`, `high`, `why_not`), `bottleneck`,
  `network_limits`, `next_bottleneck` (`name`, `at_rps`), `conf` for `conf_file`,
  `benchmark_command` (or, where it is empty, `no_benchmark_command`, which says why), `slo`
  (its bounds, `met`, `probability`, `asked_probability`), `limit_rps`, `headroom_rps`,
  `cost_usd_per_million_requests`, `cost_note`, `measure_next`: `quantity`, its `margin` (relative
  half width) and `measurements` by what they bring (`what`, `commands`, `needs_host`,
  `margin` afterwards)
- `calibration`: `engine`, `points` (`given`, `role`, `observed_ns`, `predicted_ns`,
  `relative_error`, `quantity`), `summary` by role, `parameters`, `identifiability` (`directions`
  with `determined` and `total`, `words`: a sentence for each thing that the data can't tell)
- `host_profile`: `id`, `rows` (`name`, `value`, `unit`, `low`, `high`, `kind`), `latency_curve`
  (pairs of bytes and ns)
- `provenance`: any names and values

A part that is missing or null yields an empty result here, so that the renderers can leave it out.
A warning that contains "outside", "beyond" or "extrapolat" shades its point as out of range.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .formats import UNKNOWN, interval, is_number, percent, plain, rate

Json = Mapping[str, Any]

_SHORT_LIMITS = {
    "main thread": "main",
    "i/o threads": "I/O",
    "worker threads": "work",
    "load generator": "load",
}

_OUTSIDE_WORDS = ("outside", "extrapolat", "beyond")

# What a setting is called in the engine's configuration or on the benchmark's command line.
_SETTING_NAMES = {"io_threads": "io-threads", "rate_rps": "offered load", "value_bytes": "value"}


def mapping(source: object, key: str) -> Json:
    """Return `source[key]` when it is a mapping, else an empty one."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def rows(source: object, key: str) -> list[Json]:
    """Return the mappings in the list `source[key]`, else an empty list."""
    found = source.get(key) if isinstance(source, Mapping) else None
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return []
    return [row for row in found if isinstance(row, Mapping)]


def texts(source: object, key: str) -> list[str]:
    """Return the strings in the list `source[key]`, each once, in order."""
    found = source.get(key) if isinstance(source, Mapping) else None
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, Sequence):
        return []
    return list(dict.fromkeys(str(text) for text in found if text))


def number(source: object, key: str) -> float | None:
    """Return `source[key]` as a float when it is a finite number."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return float(found) if is_number(found) else None


def setting_name(key: str) -> str:
    """Return the name a reader knows a setting by, `io-threads` for `io_threads`."""
    return _SETTING_NAMES.get(key, key.replace("_", " "))


def setting_text(setting: Json) -> str:
    """Spell a setting out, `io-threads 6, pipeline 4`, leaving out unknown values."""
    return ", ".join(
        f"{setting_name(key)} {_plain(value)}"
        for key, value in setting.items()
        if value is not None
    )


def _plain(value: object) -> str:
    if is_number(value):
        return f"{value:g}" if float(value) < 1e6 else f"{float(value):,.0f}".replace(",", " ")
    return plain(value)


def chosen_setting(recommendation: Json) -> Json:
    """Return the recommended setting, or which comes closest to an objective that none meets."""
    return mapping(recommendation, "setting") or mapping(recommendation, "closest")


def standing(recommendation: Json) -> str:
    """Return what the chosen setting is: `recommended`, or only `closest` to the objective."""
    return "closest" if mapping(recommendation, "closest") else "recommended"


def swept_key(target: Json) -> str:
    """Return the key that the points of a target vary: the chosen setting's, if any."""
    for key in chosen_setting(mapping(target, "recommendation")):
        return str(key)
    for point in rows(target, "points"):
        for key in mapping(point, "given"):
            return str(key)
    return "io_threads"


def swept_points(target: Json) -> list[tuple[float, Json]]:
    """Return (swept value, point) in ascending order, for points where the value is a number."""
    key = swept_key(target)
    found = [(number(mapping(point, "given"), key), point) for point in rows(target, "points")]
    return sorted(((x, point) for x, point in found if x is not None), key=lambda pair: pair[0])


def chosen_x(target: Json) -> float | None:
    """Return the swept value of the chosen setting."""
    return number(chosen_setting(mapping(target, "recommendation")), swept_key(target))


def knee_x(target: Json) -> float | None:
    """Return the swept value at the knee of the throughput curve."""
    return number(mapping(mapping(target, "recommendation"), "knee"), swept_key(target))


def chosen_point(target: Json) -> Json:
    """Return the predicted point at the chosen setting, empty when there is none."""
    setting = chosen_setting(mapping(target, "recommendation"))
    for point in rows(target, "points"):
        given = mapping(point, "given")
        if setting and all(given.get(key) == value for key, value in setting.items()):
            return point
    return {}


def is_outside(point: Json) -> bool:
    """Tell whether a point's warnings say that it lies outside the calibrated range."""
    return any(
        word in warning.lower() for warning in texts(point, "warnings") for word in _OUTSIDE_WORDS
    )


def is_overloaded(point: Json) -> bool:
    """Tell whether the offered load exceeds what the node can serve."""
    return str(point.get("verdict", "")).upper() == "OVERLOADED"


def overload_phrase(point: Json) -> str:
    """Say what an overloaded point completes and how fast its backlog grows; else nothing."""
    completes = interval(point, "throughput_rps")
    growth = interval(point, "backlog_growth_rps")
    if completes is None or growth is None:
        return ""
    offered = rate(completes.value + growth.value)
    return (
        f"overloaded: completes {rate(completes.value)} of {offered}; the backlog grows by "
        f"{rate(growth.value)}, so latency has no steady value"
    )


def io_utilisation(point: Json) -> list[float]:
    """Return the utilisations of the I/O threads, empty when there are none."""
    found = point.get("io_thread_utilisation")
    if is_number(found):
        return [float(found)]
    if not isinstance(found, Sequence) or isinstance(found, str):
        return []
    return [float(value) for value in found if is_number(value)]


def mean_percent(shares: Sequence[float]) -> str:
    """Format the mean of some shares, as unknown where there are none."""
    return percent(sum(shares) / len(shares)) if shares else UNKNOWN


def short_limit(point: Json) -> str:
    """Name what limits a point in one short word where there is one."""
    name = str(point.get("bottleneck") or UNKNOWN)
    return _SHORT_LIMITS.get(name.lower(), name)


def threads_alike(points: Sequence[Json]) -> bool:
    """Return whether the server has worker threads that are all alike, and no main thread."""
    return bool(points) and all(
        number(point, "main_thread_utilisation") is None and io_utilisation(point)
        for point in points
    )


def all_warnings(target: Json) -> list[str]:
    """Collect the warnings of a target, of its points and load curve, each once.

    That a point is overloaded is one of them; that a load curve goes beyond capacity is not.

    A warning that belongs to points says at which, unless it holds at all of them.
    """
    collected = texts(target, "warnings")
    points = rows(target, "points")
    where: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        for warning in [*texts(point, "warnings"), overload_phrase(point)]:
            if warning:
                where.setdefault(warning, []).append(index)
    for warning, places in where.items():
        if warning not in collected:
            at = _places(points, places, first=swept_key(target))
            collected.append(f"{at}: {warning}" if at else warning)
    for point in rows(target, "load_curve"):
        collected.extend(
            warning
            for warning in texts(point, "warnings")
            if warning not in where and warning not in collected
        )
    return collected


def _places(points: Sequence[Json], places: Sequence[int], *, first: str) -> str:
    """Name some points among all by the one setting that tells them apart, else by all settings.

    Empty where they are all there are.
    """
    if len(places) == len(points):
        return ""
    given = [mapping(point, "given") for point in points]
    keys = list(dict.fromkeys([first, *(str(key) for each in given for key in each)]))
    for key in keys:
        values = [_plain(each.get(key, "?")) for each in given]
        inside = dict.fromkeys(values[index] for index in places)
        outside = {value for index, value in enumerate(values) if index not in places}
        if not outside & inside.keys():
            return f"{setting_name(key)} {', '.join(inside)}"
    return "; ".join(dict.fromkeys(setting_text(given[index]) for index in places))
