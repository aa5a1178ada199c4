"""What starts when a `with` block begins and has stopped when it ends."""

from typing import Self


class Started:
    """Calls `start` and `stop` around a `with` block; a start that fails is stopped too."""

    def start(self) -> None:
        """Start it."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop it, however far the start came."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
