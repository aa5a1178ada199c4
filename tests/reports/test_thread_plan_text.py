"""A thread plan on a terminal of 80 columns."""

import io
from dataclasses import replace

from rich.console import Console

from forecache.models.advice.node_answers import Recommended
from forecache.models.advice.paired import PairedQuantity
from forecache.models.advice.thread_plan import GainVerdict, PlanGain, ThreadPlan
from forecache.reports.builders.recommended import (
    configuration_text,
    gain_phrase,
    no_plan_phrase,
    thread_plan_parts,
)
from forecache.reports.page import render_html
from forecache.reports.terminal import print_answer, print_parts
from forecache.reports.text.repeat import Question
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE
from tests.made_points import made_recommendation
from tests.reports.study_fixture import graviton_target, study

RATIO = Estimate(1.24, 0.97, 1.58)


def gain(verdict: GainVerdict, quantity: str, ratio: Estimate) -> PlanGain:
    verdicts = {"gains": "higher", "loses": "lower"}
    told = PairedQuantity(quantity, None, None, ratio, verdicts.get(verdict, NO_CLEAR_DIFFERENCE))
    return PlanGain(verdict, quantity, [told])


PLAN = ThreadPlan(
    cpus=16,
    threads_per_core=2,
    sibling_cpus="halves",
    server=[0, 1, 2, 3],
    interrupts=[],
    background=[4, 12],
    neighbours=[5, 6, 7, 13, 14, 15],
    idle=[8, 9, 10, 11],
    whole_cores=True,
    conf=["server-cpulist 0-3"],
    start="taskset -c 0-4,12 valkey-server valkey.conf",
    files={},
    notes=["A note that is as long as notes are: it goes on and on beyond eighty columns, here."],
    gain=gain(NO_CLEAR_DIFFERENCE, "p99_ms", Estimate(1.24, 0.01, 15.8)),
)


def test_a_gain_in_words() -> None:
    def said(gain: PlanGain | None) -> str:
        return gain_phrase(replace(PLAN, gain=gain)).removeprefix(
            "Gain over threads left to the kernel: "
        )

    assert said(gain("gains", "throughput_rps", RATIO)) == "+24% (−3.0% to +58%)"
    unclear = gain(NO_CLEAR_DIFFERENCE, "throughput_rps", RATIO)
    assert said(unclear) == "no clear difference (−3.0% to +58%)"
    assert said(gain("loses", "p99_ms", RATIO)) == "p99 +24% (−3.0% to +58%)"
    same = Estimate(1.0, 1.0, 1.0)
    assert said(gain(NO_CLEAR_DIFFERENCE, "throughput_rps", same)) == "no clear difference"
    assert said(PlanGain("not modelled", "", [], "a reason")) == "not modelled (a reason)"
    assert said(None) == ""


def test_where_nothing_is_recommended_it_says_why_there_is_no_plan() -> None:
    recommended = made_recommendation(thread_plan=PLAN)
    closest = replace(recommended, setting=None, closest=recommended.setting, thread_plan=None)
    assert no_plan_phrase(recommended) == ""
    assert "only where a setting is recommended" in no_plan_phrase(closest)
    page = render_html(study(targets=[graviton_target(recommendation=closest)]))
    assert no_plan_phrase(closest) in page
    page = render_html(study(targets=[graviton_target(recommendation=recommended)]))
    assert "server-cpulist 0-3" in page


def test_it_fits_and_says_all() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_parts(thread_plan_parts(PLAN), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    for said in ("16 CPUs, 2 a core", "5-7,13-15", "left to the kernel", "8-11"):
        assert said in text
    assert "p99 no clear difference (−99% to +1480%)" in text


def test_the_configuration_is_the_same_in_terminal_and_page() -> None:
    target = graviton_target()
    recommendation = replace(made_recommendation(conf="io-threads 4\n"), thread_plan=PLAN)
    fields = {name: getattr(target, name) for name in ("scenario", "host", "engine", "provenance")}
    answer = Recommended(**fields, points=target.points, recommendation=recommendation)
    lines = configuration_text(recommendation).splitlines()
    assert lines == ["io-threads 4", "server-cpulist 0-3"]
    page = render_html(answer, Question("forecache recommend x.yaml", [("x.yaml", "")], {}))
    assert "\n".join(lines) in page
    console = Console(file=io.StringIO(), width=80)
    print_answer(answer, console)
    assert "  io-threads 4\n  server-cpulist 0-3\n" in console.file.getvalue()  # type: ignore[attr-defined]
