"""Progress is there for a person to read, and never in the way."""

import io

import pytest

from forecache import progress as module
from forecache.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(Terminal):
    """A terminal that went away; it counts what is still sent to it."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def write(self, text: str) -> int:
        self.attempts += 1
        raise BrokenPipeError(text)


def steps(stream: io.StringIO) -> list[str]:
    return [line.split("] ")[1] for line in stream.getvalue().splitlines()]


def test_a_log_has_one_line_for_a_step() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    for message in ("loading", "loading", "fitting two\nthings"):
        progress(message)
    progress.close()
    assert steps(stream) == ["loading", "fitting two things"]


def test_a_log_has_few_of_many_steps_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    stream = io.StringIO()
    progress = Progress(stream)
    for number in range(20):
        progress(f"measuring {number}")
        now_s[0] += 1.0
    progress("fitting")
    assert steps(stream) == [*(f"measuring {number}" for number in (0, 5, 10, 15)), "fitting"]


def test_a_terminal_shows_every_step_on_one_line_and_leaves_it_empty() -> None:
    stream = Terminal()
    progress = Progress(stream)
    for number in range(3):
        progress(f"measuring {number}")
    progress.close()
    text = stream.getvalue()
    assert "\n" not in text
    assert all(f"measuring {number}" in text for number in range(3))
    assert text.endswith("\r\x1b[2K")


def test_what_ends_in_a_new_line_stays_on_a_terminal() -> None:
    stream = Terminal()
    progress = Progress(stream)
    progress("this takes about 2 min\n")
    progress("measuring")
    assert "this takes about 2 min\n\r\x1b[2K" in stream.getvalue()
    log = io.StringIO()
    Progress(log)("this takes about 2 min\n")
    assert steps(log) == ["this takes about 2 min"]


def test_work_goes_on_without_a_listener() -> None:
    stream = Closed()
    progress = Progress(stream)
    progress("measuring")
    progress("fitting")
    assert stream.attempts == 2, "both steps were tried, and neither stopped the work"
    progress.close()
    assert stream.attempts == 2, "there is no line to clear on a terminal that went away"


def test_steps_that_count_say_how_long_the_rest_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now_s[0])
    stream = Terminal()
    progress = Progress(stream)
    for number in (1, 3, 5, 1):
        progress(f"simulated {number} of 41 points")
        now_s[0] += 10.0
    progress("fitting")
    said = [text.split("] ")[1] for text in stream.getvalue().split("\r\x1b[2K")[1:]]
    assert said == [
        "simulated 1 of 41 points",
        "simulated 3 of 41 points, about 3 minutes left",
        "simulated 5 of 41 points, about 3 minutes left",
        "simulated 1 of 41 points",
        "fitting",
    ]
