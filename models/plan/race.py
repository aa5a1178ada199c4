"""The fewest shards of an offer that hold, and with how many threads.

Three steps, each of which knows more and takes longer: `sized` asks what a node serves in
saturation, `raced` tries numbers of shards with few draws, `settled` with all of them. More shards
have less load and fewer keys each, so what holds with some holds with more; numbers of threads have
no such order, and each is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..advice.choice import KNEE
from .bounds import Bound, load_bound, memory_bound
from .offers import Offer
from .schema import MOST_SHARDS, PlanScenario
from .shard import fewest, goes_on, may_be_chosen, next_that_fails_over
from .trials import CAPACITY_ERROR, FULL, RACING, Effort, Trial, Trials

BOUNDED, SIZED, RACED, SETTLED = range(4)
"""How far an offer was looked at."""

_NEAR_THE_BEST = 0.8
"""Numbers of threads that serve less than this share of the best in saturation are only tried if
they are the knee."""


@dataclass(frozen=True)
class Entry:
    """An offer, and what is known of the shards that it takes.

    Attributes
    ----------
    stage
        `BOUNDED`, `SIZED`, `RACED` or `SETTLED`.
    shards
        How many it takes at least; exactly once it is settled.
    threads
        Numbers of threads in the order in which they are tried: the knee, then the others by what
        they serve. Once raced the first is the one that holds.
    why
        What these shards are needed for, or why no number is enough.
    impossible
        Whether no number of shards is.
    least
        By number of threads: the fewest shards that may hold.
    capacity_rps
        By number of threads: what a node serves in saturation with its share of the keys.
    trials
        What was found out on the way, in the order of trial.
    """

    offer: Offer
    stage: int
    shards: int
    threads: tuple[int, ...]
    why: str
    impossible: bool = False
    least: dict[int, int] = field(default_factory=dict)
    capacity_rps: dict[int, float] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()

    @property
    def usd_per_month(self) -> float:
        """What its nodes cost at least."""
        return self.offer.nodes_usd(self.shards)

    @property
    def bill_usd(self) -> float | None:
        """Its whole bill at least; None where some of it has no known price."""
        return self.offer.bill_usd(self.shards)

    @property
    def holding(self) -> Trial:
        """Once settled, the trial of what it is."""
        return next(t for t in self.trials if t.holds and t.shards == self.shards)


def bounded(plan: PlanScenario, offer: Offer) -> Entry:
    """What an offer takes at least, without a simulation."""
    never = may_be_chosen(plan, offer)
    if never is not None:
        return Entry(offer, BOUNDED, MOST_SHARDS + 1, offer.threads, never, impossible=True)
    memory = memory_bound(plan, offer)
    found: dict[int, Bound] = {}
    for threads in offer.threads if memory.possible else ():
        load = load_bound(plan, offer, threads, least=memory.shards)
        found[threads] = load if load.shards > memory.shards else memory
    best = min(found.values(), key=lambda each: each.shards, default=memory)
    why = f"{best.what}: {best.why}" if best.shards > 1 else ""
    shards = fewest(plan, offer, best.shards)
    if shards is None:
        return Entry(offer, BOUNDED, best.shards, offer.threads, why, impossible=True)
    if shards > max(best.shards, plan.choices.shards.least):
        why = f"failover: {shards - 1} would not go on by themselves after a lost node or zone"
    least = {t: max(shards, bound.shards) for t, bound in found.items()}
    return Entry(offer, BOUNDED, shards, offer.threads, why, least=least)


def sized(plan: PlanScenario, entry: Entry, seed: int) -> Entry:
    """The same with what a node serves in saturation, of which headroom stays free."""
    trials = Trials(plan, entry.offer, seed=seed)
    least, capacity = dict[int, int](), dict[int, float]()
    for threads, shards in entry.least.items():
        guess, served = _by_capacity(trials, threads, shards)
        if guess > shards:
            # With as few keys as the first guess leaves each, nothing is served faster.
            guess, served = _by_capacity(trials, threads, shards, keys_of=min(guess, MOST_SHARDS))
        least[threads], capacity[threads] = guess, served
    shards = min(least.values())
    why = entry.why
    if shards > entry.shards:
        top = max(capacity.values())
        why = f"{top:,.0f} operations a second are all that a node serves"
    allowed = fewest(plan, entry.offer, shards)
    return Entry(
        entry.offer,
        SIZED,
        shards if allowed is None else allowed,
        _in_order(capacity),
        why,
        impossible=allowed is None,
        least=least,
        capacity_rps=capacity,
    )


def raced(plan: PlanScenario, entry: Entry, seed: int) -> Entry:
    """The same with the fewest shards that hold by few draws."""
    return _searched(plan, entry, Trials(plan, entry.offer, seed=seed), RACING, stage=RACED)


def settled(plan: PlanScenario, entry: Entry, seed: int) -> Entry:
    """The fewest shards that hold by all draws, beginning with what the race said."""
    return _searched(plan, entry, Trials(plan, entry.offer, seed=seed), FULL, stage=SETTLED)


def enumerated(plan: PlanScenario, entry: Entry, seed: int) -> Entry:
    """The same as `settled`, by trying every number of threads and shards from what memory takes.

    No bound but that of memory (unless bounds leave no number at all), no race: what the search is
    held against.
    """
    if entry.impossible:
        return entry
    offer, trials = entry.offer, Trials(plan, entry.offer, seed=seed)
    begin = fewest(plan, offer, memory_bound(plan, offer).shards)
    assert begin is not None  # or it would be impossible
    found, every = dict[int, int](), list[Trial]()
    for threads in offer.threads:
        for shards in range(begin, plan.choices.shards.most + 1):
            if not goes_on(plan, offer, shards):
                continue
            every.append(trials.trial(threads, shards, FULL))
            if every[-1].holds:
                found[threads] = shards
                break
    if not found:
        return Entry(offer, SETTLED, MOST_SHARDS + 1, offer.threads, _last(every), impossible=True)
    shards = min(found.values())
    capacity = {t: trials.capacity_rps(t, serving=shards) for t in offer.threads}
    order = [t for t in _in_order(capacity) if found.get(t) == shards]
    settings = (order[0], *(t for t in _in_order(capacity) if t != order[0]))
    every.sort(key=lambda each: each.threads != order[0])
    why = _last([t for t in every if not t.holds], otherwise=entry.why)
    return Entry(offer, SETTLED, shards, settings, why, capacity_rps=capacity, trials=tuple(every))


def _by_capacity(
    trials: Trials, threads: int, shards: int, *, keys_of: int | None = None
) -> tuple[int, float]:
    """Shards that leave headroom below what a node serves that has its share of the keys."""
    served = trials.capacity_rps(threads, serving=keys_of or shards)
    allowed = (1.0 + CAPACITY_ERROR) * (1.0 - trials.plan.objectives.cpu_headroom) * served

    def enough(count: int) -> bool:
        return (trials.scenario(threads, serving=count).workload.rate_rps or 0.0) <= allowed

    return _first(enough, shards, MOST_SHARDS), served


def _searched(
    plan: PlanScenario, entry: Entry, trials: Trials, effort: Effort, *, stage: int
) -> Entry:
    """The fewest shards that hold: of the first number of threads, then fewer with the others."""
    most = plan.choices.shards.most
    kept: list[Trial] = []

    def counted(shards: int) -> int:
        count = next_that_fails_over(plan, entry.offer, shards)
        return MOST_SHARDS + 1 if count is None else count

    def holds(threads: int, shards: int) -> bool:
        if counted(shards) > most:
            return False
        kept.append(trials.trial(threads, counted(shards), effort))
        return passes(kept[-1])

    def passes(trial: Trial) -> bool:
        # Few draws don't tell: a race only turns down what surely misses.
        return trial.holds if stage == SETTLED else not trial.misses

    first, *others = _worth_trying(entry)
    start = max(entry.shards, entry.least.get(first, entry.shards))
    shards = _gallop(partial(holds, first), start, most)
    if stage == SETTLED and shards == start:
        # The race may have been too careful.
        lowest = entry.least.get(first, 1)
        while shards > lowest and holds(first, shards - 1):
            shards -= 1
    for threads in others:
        lowest = entry.least.get(threads, entry.shards)
        if shards > lowest and holds(threads, shards - 1):
            shards, first = _first(partial(holds, threads), lowest, shards - 1), threads
    shards = counted(shards)
    if shards > most:
        why = _last(kept, otherwise=entry.why)
        return Entry(entry.offer, stage, shards, entry.threads, why, impossible=True)
    capacity = entry.capacity_rps
    if stage == SETTLED:
        # What was sized had other numbers of keys and clients, and another knee perhaps.
        capacity = {t: trials.capacity_rps(t, serving=shards) for t in entry.offer.threads}
        first = next(t for t in _in_order(capacity) if holds(t, shards))
    settings = (first, *(t for t in _in_order(capacity) if t != first))
    failed = [t for t in kept if not passes(t)]
    return Entry(
        entry.offer,
        stage,
        shards,
        settings,
        _last(failed, otherwise=entry.why),
        least=entry.least,
        capacity_rps=capacity,
        trials=tuple(sorted(kept, key=lambda each: each.threads != first)),
    )


def _worth_trying(entry: Entry) -> list[int]:
    """Numbers of threads that may hold with the fewest shards."""
    top = max(entry.capacity_rps.values())
    first, *others = entry.threads
    return [first, *(t for t in others if entry.capacity_rps[t] >= _NEAR_THE_BEST * top)]


def _in_order(capacity_rps: dict[int, float]) -> tuple[int, ...]:
    """The knee first, as in a recommendation, then the others by what they serve."""
    top = max(capacity_rps.values())
    knee = min(t for t, served in capacity_rps.items() if served >= KNEE * top)
    others = sorted((t for t in capacity_rps if t != knee), key=lambda t: (-capacity_rps[t], t))
    return (knee, *others)


def _gallop(holds: Callable[[int], bool], start: int, most: int) -> int:
    """The least number from `start` on that holds; `most` + 1 if none does."""
    if start > most:
        return most + 1
    if holds(start):
        return start
    low, step = start, 1
    while low < most:
        high = min(most, low + max(step, low // 8))
        if holds(high):
            return _first(holds, low + 1, high)
        low, step = high, 2 * step
    return most + 1


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number in a range that holds, which `high` is taken to do; `high` + 1 if not."""
    if not holds(high):
        return high + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _last(trials: Sequence[Trial], *, otherwise: str = "") -> str:
    """Why the one with the most shards that failed did."""
    failed = [each for each in trials if not each.holds]
    last = max(failed, key=lambda each: each.shards, default=None)
    return otherwise if last is None else f"with {last.shards}, {last.why_not}"
