"""What to buy: memory, bills and capacity plans."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..notebook import with_progress_bar
from .shared import DEFAULT_SEED, AskedReport, Progress, Scenario

if TYPE_CHECKING:
    from forecache.models.cost.answer import CostAnswer
    from forecache.models.footprint.answers import MemoryAnswer
    from forecache.models.plan.results import PlanAnswer, TodayAnswer


def memory(scenario: Scenario) -> "MemoryAnswer":
    """Compute the memory footprint of a scenario's data, and how many keys fit.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: memory`, or of a node's, whose keys and values are used; or a
        mapping of the same shape.

    Returns
    -------
    MemoryAnswer
        `kind`, `points` and `provenance`. Each point has used memory in all states, `populations`
        with bytes per key by part, what the node holds `beside` data, resident memory, and `fits`.

    Raises
    ------
    InputError
        When the scenario is not valid, or the memory of its engine isn't known.
    """
    from forecache.models.footprint.answers import memory as run

    return run(scenario)


def cost(scenario: Scenario) -> "CostAnswer":
    """Compute what a cache costs a month, serverless and as nodes.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: cost`, or a mapping of the same shape.

    Returns
    -------
    CostAnswer
        `kind`, `scenario`, `prices` and `points`: each with `serverless`, `nodes`, `break_even`.

    Raises
    ------
    InputError
        When the scenario is not valid, or the price table lacks a price.
    """
    from forecache.models.cost.answer import cost as run

    return run(scenario)


@with_progress_bar
def plan(
    scenario: Scenario | None = None,
    *,
    from_info: Sequence[str | Path] = (),
    from_bill: Sequence[str | Path] = (),
    cache: str | None = None,
    host: str | None = None,
    node: Scenario | None = None,
    ceiling: str | Path | None = None,
    times: float = 1.0,
    search: bool = True,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    full: bool = False,
    progress: Progress | None = None,
) -> "PlanAnswer | TodayAnswer":
    """Find which machines, how many shards and which engine meet a demand, the cheapest first.

    The current deployment stays unless it misses the objectives or a plan is 10% cheaper.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: plan`, or a mapping of the same shape. With `from_info` or
        `from_bill` it may leave out `demand`, and may be left out itself.
    from_info
        Files with what today's nodes say of themselves (INFO ALL, CONFIG GET * and others), RDB
        files, and what `--bigkeys` and `--memkeys` print; they fill in `demand` and `today`.
    from_bill
        CSV files, packed with gzip or not: exports of AWS's cost and usage report, which fill in
        `today` and its cost, and CloudWatch metrics of the nodes, which fill in `demand`.
    cache
        With `from_bill`: the cache that is meant, where there are several.
    host
        With one of these: what the nodes run on, an instance, a host or its file.
    node
        With one of these: file or mapping with other fields of a node's scenario that INFO can't
        tell, such as `irq_cores`.
    ceiling
        With one of these: file for the highest load of a node that meets the objective, as JSON if
        its name ends in .json, else in the text format of Prometheus.
    times
        With one of these: the multiple of today's peak that the ceiling is held against.
    search
        Whether to look for plans; False only with one of these.
    report
        As in `simulate`, with cost against headroom as a figure.
    seed
        Seed of all random streams; the same seed gives the same result.
    full
        Simulate every number of shards and threads of everything that may be chosen, which takes
        minutes, in place of the search.
    progress
        Called with one sentence for every step.

    Returns
    -------
    PlanAnswer
        `plans`, the cheapest first: each has a `setting`, what its nodes cost (`usd_per_month`) and
        everything (`bill_usd_per_month`), the state of a node `now` and at the `horizon` (load,
        headroom, memory, latencies with intervals, `probability` that the objective is met with
        what draws leave open of it), `milestones` of growth and `failures`. `today` is what runs
        now, `keeps_today` whether it stays, `recommended` what to run; `with_traffic` says how the
        order would change with what is paid besides nodes. `rejected` says why alternatives to the
        first plan were turned down, `front` has the cost of nodes against headroom, `serverless`
        the bills of serverless caches, `compression` what values that clients compress change;
        `not_offered`, `search`, `warnings`, `provenance`. With
        `from_info` also that, `demand`, `today`, how each field is `known`, what is `unknown` or
        `not_used`, `latencies`, and the `ceiling` where the host is known; with `from_bill` that
        too: caches with their lines, lines that have no place, and both bills `compared`. Without
        a search a `TodayAnswer` of these and `provenance`.

    Raises
    ------
    InputError
        When a file is not valid, or it names what is not known.
    InfeasibleError
        When nothing that may be chosen meets the objectives; its `result` says why.
    NotKnownError
        When more than a fifth of what today's nodes execute is not modelled; its `result` has what
        the files tell, and its message what to give besides. No report is written then, and a file
        of an earlier `ceiling` is removed.
    """
    from forecache.sim.errors import InfeasibleError, NotKnownError

    how: dict[str, Any] = {"seed": seed, "full": full, "progress": progress}
    written = AskedReport(report, "plan", options={})
    try:
        if from_info or from_bill:
            from forecache.calibration.today.answer import today

            how |= {"asked_ceiling": ceiling is not None, "times": times, "search": search}
            how |= {"bill": from_bill, "cache": cache}
            result = today(from_info, scenario, host=host, node=node, **how)
        else:
            from forecache.models.plan.answer import plan as run

            others: dict[str, Any] = {"host": host, "node": node, "ceiling": ceiling}
            others |= {"cache": cache, "times": None if times == 1.0 else times}
            alone = _without_info(scenario, search=search, **others)
            result = run(alone, **how)
    except InfeasibleError as error:
        written.write(error.result)
        _write_ceiling(error.result, ceiling)
        raise
    except NotKnownError:
        # An alarm that reads the file of an earlier call would stay green.
        if ceiling is not None and Path(ceiling).is_file() and not Path(ceiling).is_symlink():
            Path(ceiling).unlink()
        raise
    if search:
        written.write(result)
    _write_ceiling(result, ceiling)
    return result


def _without_info(scenario: Scenario | None, *, search: bool, **others: Any) -> Scenario:
    """The scenario; refuses what only has a meaning with `from_info` or `from_bill`."""
    from forecache.sim.errors import InputError

    given = [name for name, value in others.items() if value is not None]
    if not search:
        given.append("search")
    if given:
        raise InputError(f"found {given[0]} without from_info or from_bill; valid is both.")
    if scenario is None:
        raise InputError("found no scenario; valid is one of kind plan, from_info or from_bill.")
    return scenario


def _write_ceiling(result: Any, ceiling: str | Path | None) -> None:
    from forecache.hwprofiles.files import write_text_atomic

    if ceiling is not None and result.ceiling is not None:
        from forecache.output import to_json
        from forecache.reports.text.prometheus import ceiling_text

        as_json = str(ceiling).endswith(".json")
        text = to_json(result.ceiling) + "\n" if as_json else ceiling_text(result.ceiling)
        write_text_atomic(Path(ceiling), text)
