"""An answer as a page or a PDF, by the ending of the file; a study also as figures and data."""

from pathlib import Path

from forecache.hwprofiles.files import write_bytes_atomic, write_text_atomic

from ..page.html import Answer, question_of, render_html
from ..text.repeat import Question
from .data_files import write_data
from .figure_files import write_figures
from .pdf import pdf_of

__all__ = ["write_data", "write_figures", "write_report"]


def write_report(path: Path, answer: Answer, question: Question | None = None) -> None:
    """Write an answer to a file that ends in .html or .pdf.

    Parameters
    ----------
    question
        What was asked; `question_of` says it of answers that hold their scenario.
    """
    question = question or question_of(answer)
    if path.suffix.lower() != ".pdf":
        write_text_atomic(path, render_html(answer, question))
        return
    page = render_html(answer, question, paper=True)
    data = pdf_of(page, date=answer.provenance.date, attached=question.files)
    write_bytes_atomic(path, data)
