"""What a cache is billed for, as it accrues."""

from __future__ import annotations

from ...cost.ecpu import ecpu_of_get, ecpu_of_transfer
from ...prices.table import CacheEngine, PriceTable

_HOUR_S = 3600.0


class Meter:
    """ECPU and GB-hours of a run.

    Attributes
    ----------
    ecpu
        Used so far.
    gb_hours
        Data so far, the least that is billed included.
    """

    def __init__(
        self, prices: PriceTable, engine: CacheEngine, *, value_bytes: float, least_gb: float
    ) -> None:
        self._rates = prices.serverless[engine]
        self._value_bytes = value_bytes
        self._least_gb = max(least_gb, self._rates.least_gb.best)
        self.ecpu = self.gb_hours = 0.0
        self._closed_ecpu = self._hour_ecpu = self._hour_least = self._hour_s = 0.0

    def ecpu_each(self, *, reads: float, hit_rate: float) -> float:
        """Mean ECPU of a request, of which a share reads."""
        read = ecpu_of_get(self._value_bytes, hit_rate=hit_rate)
        return reads * read + (1.0 - reads) * ecpu_of_transfer(self._value_bytes)

    def add(self, ecpu: float, *, seconds: float, least_ecpu_per_s: float, data_gb: float) -> None:
        """What a step used. What is kept ready is billed hour by hour, as `cost/bill.py` does."""
        self.ecpu += ecpu
        self._hour_ecpu += ecpu
        self._hour_least += least_ecpu_per_s * seconds
        self._hour_s += seconds
        self.gb_hours += max(data_gb, self._least_gb) * seconds / _HOUR_S
        if self._hour_s >= _HOUR_S * (1.0 - 1e-9):
            self._closed_ecpu = self.billed_ecpu
            self._hour_ecpu = self._hour_least = self._hour_s = 0.0

    @property
    def billed_ecpu(self) -> float:
        """ECPU so far with what was kept ready and not used."""
        return self._closed_ecpu + max(self._hour_ecpu, self._hour_least)

    @property
    def requests_usd(self) -> float:
        """Price of the ECPU so far."""
        return self.billed_ecpu / 1e6 * self._rates.usd_per_million_ecpu.best

    @property
    def data_usd(self) -> float:
        """Price of the data so far."""
        return self.gb_hours * self._rates.usd_per_gb_hour.best
