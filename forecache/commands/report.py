"""`report`: what a study found, as a paper, figures and data."""

from pathlib import Path

import click

from forecache import verbs
from forecache.output import check_folder_target, check_report_target, to_json

from .options import json_option, no_progress_option, say_written, verb


@verb(
    "report",
    example="""forecache report study --pdf study.pdf
    forecache report study --figures figures --data data""",
)
@click.argument("study", metavar="STUDY", type=click.Path(path_type=Path))
@click.option(
    "--pdf",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a research report: question, method, host and engine with the origin of every "
    "number, validation, results, sensitivity, threats to validity, and how to repeat it.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the page again, as `forecache study` did.",
)
@click.option(
    "--figures",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write every figure as PDF, SVG and PNG, as wide as a column of 3.5 inches.",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the numbers as CSV, and as Parquet where pyarrow is installed. Columns say their "
    "unit.",
)
@json_option
@no_progress_option
def report(
    study: Path,
    pdf: Path | None,
    html: Path | None,
    figures: Path | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Write what `forecache study` found as a paper, as figures and as data.

    STUDY is the folder that `forecache study` wrote, or study.json in it. Nothing is measured or
    simulated. Page and paper have the same content. PDF needs `pip install 'forecache[paper]'`,
    Parquet `pip install 'forecache[parquet]'`.
    """
    if not (as_json or pdf or html or figures or data):
        raise click.UsageError(
            "found nothing to write; valid is --pdf, --html, --figures, --data or --json."
        )
    for path, ending, option in ((pdf, ".pdf", "--pdf"), (html, ".html", "--html")):
        if path is not None:
            check_report_target(path, option=option, endings=(ending,))
    for folder, option in ((figures, "--figures"), (data, "--data")):
        if folder is not None:
            check_folder_target(folder, option=option)
    found = verbs.report(study, pdf=pdf, html=html, figures=figures, data=data)
    say_written(pdf, html, figures, data)
    if as_json:
        click.echo(to_json(found))
