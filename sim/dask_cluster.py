"""A Dask cluster as an executor; `distributed` is an extra, imported when one is asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .errors import EngineError, InputError
from .installing import install_command

CONNECT_S = 10.0
"""How long a scheduler has to answer, at first and when the connection is lost."""

_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True)
class DaskCluster:
    """Where to run.

    Attributes
    ----------
    executor
        What takes calls.
    threads
        Of all workers that are there now, at least 1.
    """

    executor: Executor
    threads: int


@contextmanager
def dask_cluster(address: str) -> Iterator[DaskCluster]:
    """The cluster of a scheduler while the block runs.

    Parameters
    ----------
    address
        Of the scheduler, as `dask scheduler` prints it: `tcp://10.0.0.1:8786`.

    Raises
    ------
    InputError
        `distributed` is not installed, or the address is none.
    EngineError
        Nothing answers there, or it stopped answering.
    """
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError:
        raise InputError(
            f"a Dask scheduler needs the package distributed; `{install_command('dask')}` "
            "installs it."
        ) from None
    with _quiet():
        try:
            get_address_host_port(address, strict=True)
            client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except ValueError as error:
            raise InputError(
                f"scheduler {address}: {error}; valid is an address such as tcp://10.0.0.1:8786."
            ) from None
        except OSError as error:  # time-outs among them
            raise EngineError(f"scheduler {address}: does not answer ({error}).") from None
        with client:
            threads = sum(client.nthreads().values())
            yield DaskCluster(_OnScheduler(client, address), max(1, threads))


class _OnScheduler(Executor):
    """What a client's executor is, but for calls while the scheduler is lost.

    When the connection is lost, the client cancels all calls and tries for a time to connect again.
    What it is given meanwhile would never end.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._executor = client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As `Executor.submit`; `EngineError` once the scheduler is lost for good."""
        while self._client.status == "connecting":
            time.sleep(_LOOK_AGAIN_S)
        if self._client.status != "running":
            raise EngineError(f"scheduler {self._address}: stopped answering.")
        found: Future[Any] = self._executor.submit(fn, *args, **kwargs)
        return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what `distributed` logs about lost connections off the terminal; one line is enough."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
