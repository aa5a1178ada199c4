"""The errors a user can cause or meet, each with its exit code.

They live in the lowest room because every room raises them. A message is one sentence that names
the file and field, what was found, and what is valid.

Whatever reads what a user wrote, or looks up what it names, raises `InputError` where that is
missing, damaged, unknown or not valid. Docstrings say under *Raises* what goes beyond that.
"""

from typing import Any

from .plain import Result


class ForecacheError(Exception):
    """Base of the errors the command line prints without a traceback."""

    exit_code = 1


class InputError(ForecacheError):
    """What the user gave can't be used: a file, a field, an option."""

    exit_code = 2


class InfeasibleError(ForecacheError):
    """The request is well-formed but nothing satisfies it, an SLO no setting meets, say.

    Attributes
    ----------
    result
        What the verb would have returned; None where there is none.
    """

    exit_code = 3

    def __init__(self, message: str, *, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class UnfitError(ForecacheError):
    """An answer is there, and something that was asked for does not hold in it."""

    exit_code = 7


class IncompleteError(ForecacheError):
    """Workers were lost, and what they did; `result` says what is there."""

    exit_code = 4

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result


class EngineError(ForecacheError):
    """An engine or another target could not be started or reached."""

    exit_code = 5


class OutsideError(ForecacheError):
    """A measurement is outside the interval of a prediction, or not of what was predicted."""

    exit_code = 6


class NotKnownError(ForecacheError):
    """Too little is known for the numbers that were asked for; the message says what to give.

    Attributes
    ----------
    result
        What is known all the same.
    """

    exit_code = 8

    def __init__(self, message: str, *, result: Result) -> None:
        super().__init__(message)
        self.result = result
