"""Everything at once: a study, and its report."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..notebook import with_progress_bar
from .shared import DEFAULT_SEED, Progress, Scenario

if TYPE_CHECKING:
    from forecache.reports.study_answer import Study


@with_progress_bar
def study(
    scenario: Scenario,
    *,
    out: str | Path = "study",
    engine: str | None = None,
    design: str = "quick",
    seed: int = DEFAULT_SEED,
    sensitivity: bool = False,
    progress: Progress | None = None,
) -> "Study":
    """Profile, observe, calibrate, predict, recommend and report.

    Parameters
    ----------
    scenario
        Path of a scenario file, or a mapping of the same shape.
    out
        Folder for the report and its inputs.
    engine, design
        As in `observe`.
    seed
        Seed of all random streams.
    sensitivity
        Also simulate which inputs move each recommended setting, as `explain` does, which takes
        one to two minutes for each of the two hosts.
    progress
        Called with one sentence for every step.

    Returns
    -------
    Study
        `title`, `warnings`, `targets` (this host and the scenario's, each with what `recommend`
        returns and a `load_curve`), `calibration` (the report of `calibrate`), `host_profile`,
        `provenance`; `report` is the path of the HTML file.

    Raises
    ------
    InputError, EngineError
        As the verbs it is made of; missing requirements are found before anything is measured. An
        `slo` that no setting meets is no error here: the page says which comes closest.
    """
    from forecache.calibration.drive.servers import check_ready

    check_ready(engine)  # before the imports of all rooms, which take seconds
    from forecache.reports.study import study as run

    return run(
        scenario,
        out=Path(out),
        engine=engine,
        design=design,
        seed=seed,
        sensitivity=sensitivity,
        progress=progress,
    )


def report(
    study: str | Path,
    *,
    pdf: str | Path | None = None,
    html: str | Path | None = None,
    figures: str | Path | None = None,
    data: str | Path | None = None,
) -> "Study":
    """Write what a study found as a paper, as a page, as figures and as data.

    Parameters
    ----------
    study
        Folder that `study` wrote, or study.json in it.
    pdf, html
        Files for the report; they say the same.
    figures
        Folder for each figure as PDF, SVG and PNG, as wide as a column.
    data
        Folder for the numbers as CSV, and as Parquet where pyarrow is installed.

    Returns
    -------
    Study
        As `study` returned it.

    Raises
    ------
    InputError
        When it is no study, a file can't be written, or typst is not installed, which PDF needs.
    """
    from forecache.output import check_report_target
    from forecache.reports.export.pdf import check_typst
    from forecache.reports.export.write import write_data, write_figures, write_report
    from forecache.reports.study_answer import load_study

    targets = [(pdf, ".pdf", "pdf"), (html, ".html", "html")]
    wanted = [
        check_report_target(Path(path), option=option, endings=(ending,))
        for path, ending, option in targets
        if path is not None
    ]
    if figures is not None:
        check_typst(f"figures {figures}")
    found = load_study(Path(study))
    for path in wanted:
        write_report(path, found)
    if figures is not None:
        write_figures(found, Path(figures))
    if data is not None:
        write_data(found, Path(data))
    return found
