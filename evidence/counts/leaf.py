"""A number of instructions that was counted, as profiles have it."""

from forecache.hwprofiles.quantity import Quantity


def counted_leaf(value: float, factor: float, *, source: str, method: str) -> Quantity:
    """Instructions with their range, a factor to either side, in four digits."""
    return Quantity(
        value=float(f"{value:.4g}"),
        unit="instructions",
        kind="measured",
        source=source,
        low=float(f"{value / factor:.4g}"),
        high=float(f"{value * factor:.4g}"),
        method=method,
    )
