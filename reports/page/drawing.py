"""Drawing the figures of one page, each at a wide and a narrow width."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count as counter

from markupsafe import Markup
from matplotlib.figure import Figure

from .. import figures


@dataclass(frozen=True)
class FigureView:
    """A figure at two widths, of which the page shows the one that fits."""

    title: str
    caption: str
    wide: Markup
    narrow: Markup


class Drawer:
    """Draws figures for one page and keeps their element ids apart."""

    def __init__(self) -> None:
        self._numbers = counter(1)

    def draw(
        self,
        make: Callable[[int], Figure | None],
        *,
        title: str,
        caption: str,
        label: str,
        width_px: int = figures.HALF_PX,
    ) -> FigureView | None:
        """Draw with `make(width_px)` at both widths; None when there is nothing to draw."""
        drawn = [make(width) for width in (width_px, figures.NARROW_PX)]
        if any(figure is None for figure in drawn):
            return None
        wide, narrow = (
            Markup(figures.inline_svg(figure, prefix=f"f{next(self._numbers)}", label=label))
            for figure in drawn
            if figure is not None
        )
        return FigureView(title, caption, wide, narrow)
