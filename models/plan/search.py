"""Best first: what may be cheapest is looked at more closely, until the cheapest plans are certain.

Every offer has a bound of its shards, and so of its cost. The offer whose bound is lowest is taken
one step further, which knows more, takes longer, and may only raise the bound: `size` asks what a
node serves in saturation, `race` tries numbers of shards with few draws, `settle` with all of
them. Once a settled one comes first, nothing that is left can be cheaper, and it is the next best
plan. Offers whose bill may be the lowest with what is paid besides nodes are settled too, so that
the answer can say whether that would change the order. Several offers are taken at a time, always
as many, so that the answer does not depend on the machine.

More shards have less load and fewer keys each, so what holds with some holds with more; numbers of
threads have no such order, and each is tried. Of plans that cost the same the better one comes
first, as far as that is known: numbers that differ by less than what is uncertain of them don't
tell two plans apart. Of those that nothing tells apart the simpler one comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from ..advice.objective import KNEE
from ..advice.paired import capacity_ratio_half
from ..cost.schema import MOST_SHARDS
from ..prediction.predict import Progress
from .schema import PlanScenario
from .shard import (
    Bound,
    Offer,
    fewest_shards,
    load_bound,
    memory_bound,
    next_failover_count,
    survives_losses,
    why_never,
)
from .trials import CAPACITY_ERROR, FULL, RACING, Effort, Trial, Trials

# --- one offer: the fewest shards that hold -------------------------------------------------------

BOUNDED, SIZED, RACED, SETTLED = range(4)
"""How far an offer was looked at."""

_NEAR_THE_BEST = 0.8
"""Numbers of threads that serve less than this share of the best in saturation are only tried if
they are the knee."""


@dataclass(frozen=True)
class BoundedOffer:
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


def bound(plan: PlanScenario, offer: Offer) -> BoundedOffer:
    """Lower bound of the shards of an offer, without a simulation."""
    never = why_never(plan, offer)
    if never is not None:
        return BoundedOffer(offer, BOUNDED, MOST_SHARDS + 1, offer.threads, never, impossible=True)
    memory = memory_bound(plan, offer)
    found: dict[int, Bound] = {}
    for threads in offer.threads if memory.possible else ():
        load = load_bound(plan, offer, threads, least=memory.shards)
        found[threads] = load if load.shards > memory.shards else memory
    best = min(found.values(), key=lambda each: each.shards, default=memory)
    why = f"{best.what}: {best.why}" if best.shards > 1 else ""
    shards = fewest_shards(plan, offer, best.shards)
    if shards is None:
        return BoundedOffer(offer, BOUNDED, best.shards, offer.threads, why, impossible=True)
    if shards > max(best.shards, plan.choices.shards.least):
        why = f"failover: {shards - 1} would not go on by themselves after a lost node or zone"
    least = {t: max(shards, bound.shards) for t, bound in found.items()}
    return BoundedOffer(offer, BOUNDED, shards, offer.threads, why, least=least)


def size(plan: PlanScenario, entry: BoundedOffer, seed: int) -> BoundedOffer:
    """Raise the bound by what a node serves in saturation, less the headroom asked for."""
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
    allowed = fewest_shards(plan, entry.offer, shards)
    return BoundedOffer(
        entry.offer,
        SIZED,
        shards if allowed is None else allowed,
        _in_order(capacity),
        why,
        impossible=allowed is None,
        least=least,
        capacity_rps=capacity,
    )


def race(plan: PlanScenario, entry: BoundedOffer, seed: int) -> BoundedOffer:
    """Raise the bound to the fewest shards that hold by few draws."""
    return _search_shards(plan, entry, Trials(plan, entry.offer, seed=seed), RACING, stage=RACED)


def settle(plan: PlanScenario, entry: BoundedOffer, seed: int) -> BoundedOffer:
    """Find the fewest shards that hold by all draws, beginning with what the race said."""
    return _search_shards(plan, entry, Trials(plan, entry.offer, seed=seed), FULL, stage=SETTLED)


def enumerate_shards(plan: PlanScenario, entry: BoundedOffer, seed: int) -> BoundedOffer:
    """The same as `settle`, by trying every number of threads and shards from what memory takes.

    No bound but that of memory (unless bounds leave no number at all), no race: what the search is
    held against.
    """
    if entry.impossible:
        return entry
    offer, trials = entry.offer, Trials(plan, entry.offer, seed=seed)
    begin = fewest_shards(plan, offer, memory_bound(plan, offer).shards)
    assert begin is not None  # or it would be impossible
    found, every = dict[int, int](), list[Trial]()
    for threads in offer.threads:
        for shards in range(begin, plan.choices.shards.most + 1):
            if not survives_losses(plan, offer, shards):
                continue
            every.append(trials.trial(threads, shards, FULL))
            if every[-1].holds:
                found[threads] = shards
                break
    if not found:
        return BoundedOffer(
            offer, SETTLED, MOST_SHARDS + 1, offer.threads, _last(every), impossible=True
        )
    shards = min(found.values())
    capacity = {t: trials.capacity_rps(t, serving=shards) for t in offer.threads}
    order = [t for t in _in_order(capacity) if found.get(t) == shards]
    settings = (order[0], *(t for t in _in_order(capacity) if t != order[0]))
    every.sort(key=lambda each: each.threads != order[0])
    why = _last([t for t in every if not t.holds], otherwise=entry.why)
    return BoundedOffer(
        offer, SETTLED, shards, settings, why, capacity_rps=capacity, trials=tuple(every)
    )


def _by_capacity(
    trials: Trials, threads: int, shards: int, *, keys_of: int | None = None
) -> tuple[int, float]:
    """Shards that leave headroom below what a node serves that has its share of the keys."""
    served = trials.capacity_rps(threads, serving=keys_of or shards)
    allowed = (1.0 + CAPACITY_ERROR) * (1.0 - trials.plan.objectives.cpu_headroom) * served

    def enough(count: int) -> bool:
        return (trials.scenario(threads, serving=count).workload.rate_rps or 0.0) <= allowed

    return _first(enough, shards, MOST_SHARDS), served


def _search_shards(
    plan: PlanScenario, entry: BoundedOffer, trials: Trials, effort: Effort, *, stage: int
) -> BoundedOffer:
    """The fewest shards that hold: of the first number of threads, then fewer with the others."""
    most = plan.choices.shards.most
    kept: list[Trial] = []

    def counted(shards: int) -> int:
        count = next_failover_count(plan, entry.offer, shards)
        return MOST_SHARDS + 1 if count is None else count

    def holds(threads: int, shards: int) -> bool:
        if counted(shards) > most:
            return False
        kept.append(trials.trial(threads, counted(shards), effort))
        return passes(kept[-1])

    def passes(trial: Trial) -> bool:
        # Few draws don't tell: a race only turns down what surely misses.
        return trial.holds if stage == SETTLED else not trial.misses

    first, *others = entry.threads
    near_rps = _NEAR_THE_BEST * max(entry.capacity_rps.values())
    others = [threads for threads in others if entry.capacity_rps[threads] >= near_rps]
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
        return BoundedOffer(entry.offer, stage, shards, entry.threads, why, impossible=True)
    capacity = entry.capacity_rps
    if stage == SETTLED:
        # What was sized had other numbers of keys and clients, and another knee perhaps.
        capacity = {t: trials.capacity_rps(t, serving=shards) for t in entry.offer.threads}
        first = next(t for t in _in_order(capacity) if holds(t, shards))
    settings = (first, *(t for t in _in_order(capacity) if t != first))
    failed = [t for t in kept if not passes(t)]
    return BoundedOffer(
        entry.offer,
        stage,
        shards,
        settings,
        _last(failed, otherwise=entry.why),
        least=entry.least,
        capacity_rps=capacity,
        trials=tuple(sorted(kept, key=lambda each: each.threads != first)),
    )


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
    """Why the failed trial with the most shards failed."""
    failed = [each for each in trials if not each.holds]
    last = max(failed, key=lambda each: each.shards, default=None)
    return otherwise if last is None else f"with {last.shards}, {last.why_not}"


# --- the order of plans ---------------------------------------------------------------------------

LEAST_DIFFERENCE = 0.05
"""Of two probabilities to meet the objective that both are enough, so that it counts."""


def rank(entries: Sequence[BoundedOffer]) -> list[BoundedOffer]:
    """Settled offers in the order of the answer.

    The cheapest first. Of equal cost, as often as one is to be taken: of those whose probability to
    meet the objectives is the highest, or not known to be less, those that leave the most of what a
    node serves, or not known to be less; of these the simplest.
    """
    left, found = list(entries), list[BoundedOffer]()
    while left:
        least = min(map(_cents, left))
        best = _best([each for each in left if _cents(each) == least])
        found.append(best)
        left = [each for each in left if each is not best]
    return found


def tied(first: BoundedOffer, second: BoundedOffer) -> bool:
    """Whether two settled offers cost the same, with no clear difference between them."""
    return (
        _cents(first) == _cents(second)
        and not _is_likelier(first, second)
        and not _is_likelier(second, first)
        and not _has_more_headroom(first, second)
        and not _has_more_headroom(second, first)
    )


def _best(equal: Sequence[BoundedOffer]) -> BoundedOffer:
    """The best of settled offers of the same cost."""
    likeliest = max(equal, key=lambda each: each.holding.probability)
    likely = [e for e in equal if not _is_likelier(likeliest, e)]
    roomiest = min(likely, key=lambda each: (each.holding.load, _simplicity(each)))
    return min((e for e in likely if not _has_more_headroom(roomiest, e)), key=_simplicity)


def _is_likelier(first: BoundedOffer, second: BoundedOffer) -> bool:
    """Whether the first meets the objectives with a higher probability, as far as draws tell."""
    one, other = first.holding.chance, second.holding.chance
    assert one is not None  # settled
    assert other is not None
    known_to = math.hypot(one.value - one.low, other.high - other.value)
    return one.value - other.value > max(LEAST_DIFFERENCE, known_to)


def _has_more_headroom(first: BoundedOffer, second: BoundedOffer) -> bool:
    """Whether the first leaves more of what a node serves, beyond what is uncertain of both."""
    one, other = first.holding, second.holding
    assert one.prediction is not None  # settled, with all draws
    assert other.prediction is not None
    less = math.log(other.load / one.load)
    return less > capacity_ratio_half(one.prediction, other.prediction)


def _cents(entry: BoundedOffer) -> int:
    return round(100 * entry.usd_per_month)


def _simplicity(entry: BoundedOffer) -> tuple[int, int, int, str, str]:
    """Few shards, replicas and threads first, then by name."""
    offer = entry.offer
    return entry.shards, offer.replicas, entry.threads[0], offer.name, offer.engine_words


# --- the search over offers -----------------------------------------------------------------------

AT_A_TIME = 4
"""Offers that are taken a step further at a time."""

RANKED = 5
"""Plans that an answer has."""

STEPS: tuple[Callable[[PlanScenario, BoundedOffer, int], BoundedOffer], ...] = (size, race, settle)


def search(
    plan: PlanScenario,
    offers: Sequence[Offer],
    *,
    seed: int,
    executor: Executor,
    full: bool = False,
    progress: Progress | None = None,
) -> tuple[list[BoundedOffer], list[BoundedOffer]]:
    """The cheapest plans among some offers, the best first, and all other offers.

    Parameters
    ----------
    full
        Settle every offer by enumeration, without bounds of load and without races.
    """
    say = progress or (lambda _: None)
    bounds = list(executor.map(bound, [plan] * len(offers), offers))
    if full:
        say(f"enumerating {len(offers)} offers")
        count = len(bounds)
        done = list(executor.map(enumerate_shards, [plan] * count, bounds, [seed] * count))
        return _best_and_others([each for each in done if not each.impossible], done)
    plans: list[BoundedOffer] = []
    waiting = sorted((each for each in bounds if not each.impossible), key=_sort_key)
    out = [each for each in bounds if each.impossible]
    while waiting:
        # Offers of equal cost are ranked, so that all of them have to be settled.
        certain = len(plans) >= RANKED and (
            waiting[0].usd_per_month > plans[RANKED - 1].usd_per_month
        )
        if not certain and waiting[0].stage == SETTLED:
            plans.append(waiting.pop(0))
            continue
        taken = _cheaper_with_traffic(plans, waiting) if certain else _to_take(plans, waiting)
        if not taken:
            break
        step = ("sizing", "racing", "settling")[taken[0].stage]
        say(f"{step} {taken[0].offer.words}, {len(plans)} of {RANKED} plans are certain")
        calls = [executor.submit(STEPS[each.stage], plan, each, seed) for each in taken]
        further = [call.result() for call in calls]
        left = [each for each in waiting if all(each is not other for other in taken)]
        out += [each for each in further if each.impossible]
        waiting = sorted([*left, *(e for e in further if not e.impossible)], key=_sort_key)
    return _best_and_others(plans, [*plans, *waiting, *out])


def _to_take(plans: Sequence[BoundedOffer], waiting: Sequence[BoundedOffer]) -> list[BoundedOffer]:
    """Offers to take a step further: those that may still be among the cheapest."""
    taken = [each for each in waiting if each.stage < SETTLED][:AT_A_TIME]
    settled = sorted(e.usd_per_month for e in [*plans, *waiting] if e.stage == SETTLED)
    if len(settled) < RANKED:
        return taken
    return [e for e in taken if e.usd_per_month <= settled[RANKED - 1]] or taken[:1]


def _cheaper_with_traffic(
    plans: Sequence[BoundedOffer], waiting: Sequence[BoundedOffer]
) -> list[BoundedOffer]:
    """Offers to take a step further since their whole bill may be the lowest."""
    bills = [(e.bill_usd, e) for e in [*plans, *waiting]]
    settled = [usd for usd, e in bills if usd is not None and e.stage == SETTLED]
    least = min(settled, default=math.inf)
    left = [(usd, n, e) for n, (usd, e) in enumerate(bills) if usd is not None and usd < least]
    return [e for _, _, e in sorted(left) if e.stage < SETTLED][:AT_A_TIME]


def _best_and_others(
    plans: Sequence[BoundedOffer], everything: Sequence[BoundedOffer]
) -> tuple[list[BoundedOffer], list[BoundedOffer]]:
    best = rank(plans)[:RANKED]
    others = [each for each in everything if all(each is not plan for plan in best)]
    return best, sorted(others, key=_sort_key)


def _sort_key(entry: BoundedOffer) -> tuple[bool, float, int]:
    """The cheapest first, of equal cost those that are known better."""
    return entry.impossible, entry.usd_per_month, -entry.stage
