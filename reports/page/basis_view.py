"""What the predictions rest on, for the page: calibration and host profile."""

from typing import Any

from matplotlib.figure import Figure

from forecache.calibration.fit.report import CalibrationReport, FitPoint

from .. import figures
from ..study_answer import HostNumbers
from ..text.accuracy import (
    accuracy_rows,
    determined_text,
    parameter_rows,
    quantities,
    quantity_name,
    without_common_note,
    worst_points,
)
from ..text.engines import engine_name
from ..text.formats import sentence
from ..text.wording import depth_phrase
from .drawing import Drawer


def calibration_view(calibration: CalibrationReport, drawer: Drawer) -> dict[str, Any]:
    """Return the template's context for the calibration."""
    engine = calibration.engine
    drawn = []
    for quantity, group in quantities(calibration.points).items():

        def make(
            width: int, group: list[FitPoint] = group, quantity: str = quantity
        ) -> Figure | None:
            return figures.accuracy(group, quantity=quantity, width_px=width)

        name = quantity_name(quantity)
        view = drawer.draw(
            make,
            title=f"Predicted against observed: {name}",
            caption="Shaded: within ±20%; inner lines: ±10%. Held-out points were not fitted.",
            label=f"Predicted against observed {name}, fitted and held-out points.",
            width_px=figures.WIDE_PX,
        )
        if view is not None:
            drawn.append(view)
    parameters, about_parameters = without_common_note(parameter_rows(calibration.parameters))
    return {
        "engine": engine_name(engine),
        "depth": depth_phrase(engine.depth),
        "rows": accuracy_rows(calibration),
        "figures": drawn,
        "worst": worst_points(calibration),
        "determined": determined_text(calibration.identifiability.directions),
        "untold": [sentence(each) for each in calibration.identifiability.words],
        "parameters": parameters,
        "about_parameters": about_parameters,
    }


def host_view(host: HostNumbers, drawer: Drawer) -> dict[str, Any]:
    """Return the template's context for the host profile."""
    return {
        "id": host.id,
        "figure": drawer.draw(
            lambda width: figures.memory_latency(host, width_px=width),
            title="Memory latency of the host",
            caption="Each load depends on the one before it; steps are where a cache ends.",
            label="Latency of a dependent load by working set.",
        ),
        "parameters": parameter_rows(host.rows),
    }
