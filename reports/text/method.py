"""What a study asked, how it found its answer, and what may be wrong with it, in sentences."""

from collections import Counter

from forecache.models.advice.node_answers import Recommended

from ..study_answer import Study
from .accuracy import determined_text, quantities, quantity_name, role_name
from .formats import percent
from .points import by_threads, chosen_point, is_outside
from .settings import setting_name, setting_text


def question_text(study: Study) -> str:
    """The question, with the engine and the hosts."""
    engine = study.calibration.engine
    hosts = " and ".join(target.host.title for target in study.targets)
    return (
        f"How many I/O threads should {engine.name} {engine.version} run for the workload of "
        f"{study.scenario_name}, what does it then serve, and how sure is that, on {hosts}?"
    )


def method_paragraphs(study: Study) -> list[str]:
    """How the study found its answer."""
    calibration, threads = study.calibration, _threads(study)
    roles = Counter(point.role for point in calibration.points)
    counted = " and ".join(f"{n} {role_name(role)}" for role, n in roles.items())
    names = ", ".join(quantity_name(name) for name in quantities(calibration.points))
    observed = (
        f"{counted} quantities ({names}). Those held out played no part in the fit. "
        f"{determined_text(calibration.identifiability.directions)}"
        if calibration.points
        else "No point of the calibration has both an observed and a predicted value."
    )
    return [
        "Work × speed = time. The work of the engine (instructions, system calls and cache lines "
        "of each step of a request) was fitted to a real engine that was driven on this host. The "
        "speed of a host says how long each of them takes. Their product is the duration of every "
        "step, and a discrete-event simulation of threads, clients, load generator and network "
        "turns the durations into throughput and latency.",
        f"This host was profiled by micro-benchmarks; each of its numbers says below how it is "
        f"known. On it {calibration.engine.name} {calibration.engine.version} was observed "
        f"at points that vary pipeline, value size, number of keys and connections: {observed}",
        f"The engine was then simulated at {threads}, with seed {study.provenance.seed} and the "
        "same random streams at every setting. Repeated runs under draws of all uncertain numbers "
        "give the 95% intervals, which include the model’s own error; settings are compared in "
        "pairs under the same draws.",
    ]


def _threads(study: Study) -> str:
    name = setting_name("io_threads")
    listed = [
        ", ".join(f"{x:g}" for x, _ in by_threads(target)) + f" ({target.name})"
        for target in study.targets
    ]
    return f"{name} {'; '.join(listed)}"


def threats(study: Study) -> list[str]:
    """What may make the answer wrong, without what other sections list."""
    calibration = study.calibration
    found = [each for each in calibration.warnings if each not in study.warnings]
    if study.warnings:
        found.insert(
            0, "What was wrong with the observation stands at the top: “About this study”."
        )
    if calibration.identifiability.words:
        found.append(
            f"{determined_text(calibration.identifiability.directions)} “What the data can’t tell” "
            "lists them."
        )
    worst = [
        f"{percent(max(abs(point.relative_error) for point in group))} ({quantity_name(quantity)})"
        for quantity, group in quantities(calibration.points).items()
    ]
    if worst:
        found.append(
            f"The worst points are off by {', '.join(worst)}; a prediction elsewhere may be, too."
        )
    assumed = sum(row.kind == "assumed" for row in study.host_profile.rows)
    if assumed:
        found.append(
            f"{assumed} numbers of {study.host_profile.id} are assumed within a range, "
            "not measured."
        )
    for target in study.targets:
        found += _of_target(target, target.name)
    found.append(
        "One machine, one build and one day were observed. Another build, kernel, hypervisor or "
        "neighbour may change the work or the speed."
    )
    return list(dict.fromkeys(found))


def _of_target(target: Recommended, name: str) -> list[str]:
    """What is special about a host."""
    found = []
    if target.host.kind == "catalogue":
        found.append(
            f"{name}: the profile comes from the catalogue. Nothing was run on this machine, "
            "so its numbers are those published, or assumed within a range."
        )
    outside = [f"{x:g}" for x, point in by_threads(target) if is_outside(point)]
    if outside:
        found.append(
            f"{name}: {setting_name('io_threads')} {', '.join(outside)} lie outside the range "
            "that the calibration covers."
        )
    if chosen_point(target).bottleneck == "load generator":
        found.append(f"{name}: the load generator limits, so the server’s own limit is not seen.")
    return found


def sensitivity_title(target: Recommended, name: str) -> str:
    """`graviton3-c7g.4xlarge, io-threads 6`."""
    return f"{name}, {setting_text(target.recommendation.chosen)}"
