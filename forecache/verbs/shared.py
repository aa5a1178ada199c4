"""What verbs share: what they are given, and the report that may be asked for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Progress = Callable[[str], None]
Scenario = str | Path | Mapping[str, Any]

DEFAULT_SEED = 1


class AskedReport:
    """A report that is asked for, or not: refused before any work, written after it."""

    def __init__(
        self,
        file: str | Path | None,
        verb: str,
        *sources: Scenario,
        options: Mapping[str, object],
    ) -> None:
        from forecache.output import check_report_target

        self._file = None if file is None else check_report_target(Path(file))
        self._verb, self._sources, self._options = verb, sources, options

    def write(self, answer: Any) -> None:
        """Write it, with what was asked where the answer itself doesn't hold that."""
        if self._file is None:
            return
        from forecache.reports.export.write import write_report
        from forecache.reports.page.html import holds_question
        from forecache.reports.text.repeat import asked

        question = None
        if not holds_question(answer):
            question = asked(self._verb, *self._sources, options=self._options)
        write_report(self._file, answer, question)
