"""What the page says about a capacity plan: an answer turned into strings, rows and figures."""

from typing import Any

from forecache.models.plan.results import FromBill, PlanAnswer

from .. import figures
from ..text.bills import (
    bill_rows,
    cache_rows,
    compared_rows,
    export_phrase,
    line_rows,
    not_priced_sentences,
    unplaced_rows,
)
from ..text.plans import (
    chosen_row,
    compression_facts,
    compression_heading,
    cost_phrase,
    data_tiering_phrase,
    demand_phrase,
    failure_phrase,
    front_rows,
    headline,
    marks_phrase,
    milestone_phrase,
    plan_facts,
    plan_title,
    ranked_legend,
    ranked_rows,
    rejected_heading,
    search_phrase,
    serverless_phrase,
    terms_phrase,
    usd,
)
from ..text.repeat import Question, repeat_view
from ..text.today import (
    TIME_COLUMNS,
    ceiling_facts,
    ceiling_phrase,
    changes_phrase,
    known_rows,
    latency_heading,
    latency_rows,
    nodes_rows,
    not_used_heading,
    time_legend,
    time_rows,
    trouble_rows,
    troubles_heading,
    unknown_heading,
    verdict_phrase,
)
from .drawing import Drawer


def plan_view(answer: PlanAnswer, question: Question) -> dict[str, Any]:
    """Return the template's context for a capacity plan."""
    columns, rows = ranked_rows(answer)
    best = answer.recommended
    front = front_rows(answer)
    packed = answer.compression
    return {
        "title": plan_title(answer),
        "demand": demand_phrase(answer),
        "headline": headline(answer),
        "cost": cost_phrase(answer),
        "facts": plan_facts(answer),
        "columns": [(column.name, column.numeric) for column in columns],
        "rows": rows,
        "chosen": chosen_row(answer),
        "with_traffic": answer.with_traffic,
        "rejected_heading": rejected_heading(answer),
        "ties": marks_phrase(answer),
        "legend": ranked_legend(columns),
        "compression_heading": compression_heading(packed) if packed else "",
        "compression": compression_facts(packed) if packed else [],
        "milestones": [milestone_phrase(each) for each in best.milestones] if best else [],
        "failures": [failure_phrase(loss) for loss in best.failures] if best else [],
        "rejected": [
            (each.what, each.why, "" if each.usd_per_month is None else usd(each.usd_per_month))
            for each in answer.rejected
        ],
        "front": front if len(front) > 1 else [],
        "drawn": Drawer().draw(
            lambda width: figures.front(answer.front, width_px=width),
            title="Cost of nodes against headroom",
            caption="",
            label=_spoken(front),
            width_px=figures.WIDE_PX,
        ),
        "bill": bill_rows(best.bill) if best else [],
        "bill_notes": [*not_priced_sentences(best.not_priced), terms_phrase(best)] if best else [],
        "serverless": [
            *(serverless_phrase(offer, answer) for offer in answer.serverless),
            *([data_tiering_phrase(answer.data_tiering, answer)] if answer.data_tiering else []),
        ],
        "not_offered": [f"{each.what}: {each.why}" for each in answer.not_offered],
        "search": search_phrase(answer.search),
        "warnings": list(
            dict.fromkeys([*answer.warnings, *(answer.ceiling.warnings if answer.ceiling else [])])
        ),
        "nodes": nodes_rows(answer.from_info) if answer.from_info else [],
        "known": known_rows(answer.from_info.known) if answer.from_info else [],
        "unknown": answer.from_info.unknown if answer.from_info else [],
        "unknown_heading": unknown_heading(),
        "latencies": latency_rows(answer.from_info) if answer.from_info else ([], []),
        "latency_heading": latency_heading(answer.scenario["objectives"]["slo"]),
        "not_used": answer.from_info.not_used if answer.from_info else [],
        "not_used_heading": not_used_heading(),
        "verdict": verdict_phrase(answer.ceiling) if answer.ceiling else "",
        "changes": changes_phrase(answer.ceiling) if answer.ceiling else "",
        "troubles": trouble_rows(answer.from_info) if answer.from_info else [],
        "troubles_heading": troubles_heading(),
        "time": time_rows(answer.ceiling) if answer.ceiling else [],
        "time_columns": TIME_COLUMNS,
        "time_legend": time_legend(answer.ceiling) if answer.ceiling else "",
        "ceiling": ceiling_phrase(answer.ceiling) if answer.ceiling else "",
        "ceiling_facts": ceiling_facts(answer.ceiling) if answer.ceiling else [],
        "billed": billed_view(answer.from_bill) if answer.from_bill else None,
        "repeat": repeat_view(answer.provenance, question),
    }


def billed_view(found: FromBill) -> dict[str, Any]:
    """What an export of a bill told, as rows and sentences."""
    return {
        "headline": export_phrase(found),
        "caches": cache_rows(found),
        "lines": line_rows(found),
        "compared": compared_rows(found),
        "unplaced": unplaced_rows(found, most=len(found.unplaced)),
        "known": known_rows(found.known),
        "unknown": found.unknown,
    }


def _spoken(front: list[tuple[str, str, str]]) -> str:
    """What a screen reader says instead of the figure."""
    return "Headroom against the cost of nodes: " + "; ".join(
        f"{cost} a month leaves {free}" for cost, free, _ in front
    )
