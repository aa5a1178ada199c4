"""Which kind of server a program is."""

from pathlib import Path

from .engine_process import EngineProcess, engine_version
from .memcached import MemcachedProcess
from .server_process import ServerProcess


def server_kind(binary: Path) -> type[ServerProcess]:
    """How a server is started and asked, by what the program says it is.

    Raises
    ------
    EngineError
        It doesn't say.
    """
    name, _ = engine_version(binary)
    return MemcachedProcess if name == "memcached" else EngineProcess
