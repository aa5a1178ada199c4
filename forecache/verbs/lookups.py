"""What there is: the catalogue, and what this machine allows."""

from typing import TYPE_CHECKING, Any

from .shared import Progress

if TYPE_CHECKING:
    from forecache.calibration.doctor.abilities import Diagnosis


def catalog(
    name: str | None = None,
    *,
    provider: str | None = None,
    family: str | None = None,
    arch: str | None = None,
    min_memory_gib: float | None = None,
) -> dict[str, Any]:
    """List the catalogue, or show one entry of it with the origin of every number.

    Parameters
    ----------
    name
        A host, an instance, an engine, a load generator or a dataset; None lists them all.
    provider, family, arch, min_memory_gib
        List the instances of a provider (`aws`, `google`, `azure`), a family, an instruction set
        (`x86-64`, `aarch64`), and with so much memory at least.

    Returns
    -------
    dict
        `hosts`, `families`, `instances`, `managed_nodes`, `engines`, `load_generators`,
        `datasets`, or only `instances`; of one entry `type`, `id`, `title`, `about`, `rows` (each
        number with its range, kind and source), `sources`, `notes`.

    Raises
    ------
    InputError
        When the catalogue has no such entry or family; the message lists close matches.
    """
    from forecache.sim.errors import InputError

    from ..catalogue import entry, instances, listing

    asked = {"provider": provider, "family": family, "arch": arch, "min_memory_gib": min_memory_gib}
    asked = {key: value for key, value in asked.items() if value is not None}
    if name is not None and asked:
        raise InputError(
            f"found the entry {name!r} and what instances are to be like; valid is one of the two."
        )
    if asked:
        return {"instances": instances(**asked)}  # type: ignore[arg-type]
    return listing() if name is None else entry(name)


def doctor(*, progress: Progress | None = None) -> "Diagnosis":
    """Say what this machine allows, what each thing helps, and how to get what is missing.

    Takes some seconds: two of noise, with two cores kept busy, and one of simulation.

    Returns
    -------
    Diagnosis
        `version`, `took_s` and `abilities`: each with `id`, `title`, `status` (`yes`, `limited`,
        `no`, `unknown`), `found`, `helps`, `get` (empty where nothing is missing), and `values`
        with what was found.
    """
    from forecache.calibration.doctor.diagnose import diagnose

    return diagnose(progress=progress)
