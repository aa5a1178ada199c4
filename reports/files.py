"""Answers in files: a page or a PDF, figures and numbers.

A column of a table says its unit in its name; `_low` and `_high` are the ends of its 95% interval.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from forecache.hwprofiles.files import write_bytes_atomic, write_text_atomic

from . import figures
from .builders import document
from .builders.calibration import quantities
from .document import Document, figures_in
from .page import render_html
from .paper import compiled, pdf_of
from .study_answer import Study, file_name
from .text.points import chosen_point
from .text.repeat import Question
from .tidy import TidyTable


def write_report(path: Path, answer: Any, question: Question | None = None) -> None:
    """Write an answer to a file that ends in .html or .pdf.

    Parameters
    ----------
    question
        What was asked; left out for an answer that holds it.
    """
    if path.suffix.lower() == ".pdf":
        write_bytes_atomic(path, pdf_of(answer, question))
    else:
        write_text_atomic(path, render_html(answer, question))


# --- numbers: CSV, and Parquet where pyarrow is installed -----------------------------------------


def write_data(answer: Any, folder: Path) -> list[Path]:
    """Write each table of an answer that has rows as CSV, and as Parquet where pyarrow is there."""
    written = []
    for name, make in document(answer).tables.items():
        table = make()
        if not table.rows:
            continue
        contents = {".csv": csv_text(table).encode()}
        if find_spec("pyarrow") is not None:
            contents[".parquet"] = _parquet(table)
        for ending, content in contents.items():
            path = folder / f"{name}{ending}"
            write_bytes_atomic(path, content)
            written.append(path)
    return written


def csv_text(table: TidyTable) -> str:
    """Comma-separated with a header; what is not known, or not finite, is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in table.columns])
    writer.writerows(zip(*map(_known, table.cells), strict=True))
    return text.getvalue()


def _known(cells: Sequence[object]) -> list[object]:
    return [None if isinstance(x, float) and not math.isfinite(x) else x for x in cells]


def _parquet(table: TidyTable) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [name for name, _ in table.columns]
    made = pa.table(dict(zip(names, map(_known, table.cells), strict=True)))
    out = io.BytesIO()
    pq.write_table(made, out, compression="zstd")
    return out.getvalue()


# --- figures at the width of a column: PDF, SVG and PNG -------------------------------------------


COLUMN_INCHES = 3.5
"""Of a column of IEEE and most journals in two columns."""

PNG_DPI = 600

Drawing = Callable[..., Figure | None]


def write_figures(answer: Any, folder: Path) -> list[Path]:
    """Write each figure of an answer as SVG and PNG, and as PDF where typst is installed.

    SVG and PDF are vectors: the PDF has its font embedded, the SVG its letters as outlines, so that
    both look the same everywhere. PNG has 600 dots an inch.
    """
    written = []
    drawings = _of_study(answer) if isinstance(answer, Study) else _of_document(document(answer))
    for name, draw in drawings:
        figure = draw(width_px=figures.NARROW_PX)
        if figure is None:
            continue
        # Outlines for a file of its own; as text for Typst, which embeds the font.
        contents = {
            ".svg": at_column_width(figures.svg_text(figure, outlines=True)).encode(),
            ".png": _png(figure),
        }
        if find_spec("typst") is not None:
            contents[".pdf"] = _pdf(figures.svg_text(figure))
        for ending, content in contents.items():
            path = folder / f"{name}{ending}"
            write_bytes_atomic(path, content)
            written.append(path)
    return written


def _of_document(made: Document) -> Iterator[tuple[str, Drawing]]:
    """File name without its ending, and what draws the figure; of equal names the later counted."""
    taken: Counter[str] = Counter()
    for each in figures_in(made.sections):
        name = file_name(each.name)
        taken[name] += 1
        yield f"{name}-{taken[name]}" if taken[name] > 1 else name, each.draw


def _of_study(study: Study) -> Iterator[tuple[str, Drawing]]:
    """The same, named after the hosts."""
    for target in study.targets:
        name = file_name(target.name)
        point = chosen_point(target)
        yield f"{name}-throughput", partial(figures.scaling, target)
        yield f"{name}-latency", partial(figures.latency_by_load, target)
        yield f"{name}-utilisation", partial(figures.utilisation, target)
        yield f"{name}-stages", partial(figures.stages, point)
        if target.sensitivity is not None:
            yield f"{name}-sensitivity", partial(figures.sensitivity, target.sensitivity)
    for quantity, group in quantities(study.calibration.points).items():
        draw = partial(figures.accuracy, group, quantity=quantity)
        yield f"calibration-{file_name(quantity)}", draw
    yield "host-memory-latency", partial(figures.memory_latency, study.host_profile)


def at_column_width(svg: str) -> str:
    """An SVG that says how wide it is on paper."""
    width, height = (float(size) for size in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    inches = COLUMN_INCHES * height / width
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', rf'<svg \1width="{COLUMN_INCHES}in"', svg, count=1)
    return re.sub(r'<svg ([^>]*?)height="[^"]*"', rf'<svg \1height="{inches:.4f}in"', text, count=1)


def _png(figure: Figure) -> bytes:
    dpi = PNG_DPI * COLUMN_INCHES / figure.get_figwidth()
    buffer = io.BytesIO()
    with figures.house_style():
        figure.savefig(
            buffer,
            format="png",
            dpi=dpi,
            facecolor="white",
            metadata={"Software": None},
            pil_kwargs={"dpi": (PNG_DPI, PNG_DPI)},
        )
    return buffer.getvalue()


def _pdf(svg: str) -> bytes:
    """The figure alone on a page of its size."""
    source = (
        f"#set page(width: {COLUMN_INCHES}in, height: auto, margin: 0pt)\n"
        '#image("figure.svg", width: 100%)\n'
    )
    return compiled(source, {"figure.svg": svg})
