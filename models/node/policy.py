"""What a threading policy is: one record that says all in which policies differ.

A policy is how an engine's threads divide the work of a request. Its two executions are modules;
everything else that the rest of the model has to know of it is a field here, so that no other
module asks for a policy by its name. The records are in `policies.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Literal

HandOver = Literal["none", "rings", "shared_queue", "turns", "clients", "batches"]
"""How a request gets from one thread to another:

- `none`: it stays with one thread.
- `rings`: every read and every write is a job in the ring of an I/O thread.
- `shared_queue`: every read and every write is a job in one queue that all I/O threads take from,
  and the main thread collects responses from another.
- `turns`: the main thread deals out the clients of a turn, serves its share, and waits for the
  slowest thread.
- `clients`: a client that has a complete command moves to the main thread and back.
- `batches`: what a thread has read in a turn goes to the main thread as one batch, and the replies
  come back as one.
"""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One threading policy.

    Attributes
    ----------
    name
        What engine profiles call it.
    reference, compiled
        Its two executions: the name of a module, and of a C file in `native/` without its suffix.
    first_owner
        Every thread from this number on watches the sockets of its own clients; None where the main
        thread watches all of them.
    threads_sleep
        Whether all threads sleep when there is nothing to do; otherwise some of them spin.
    hand_over
        How a request gets from one thread to another.
    parses_first
        Whether a thread that reads also parses the first command of a pipeline. Otherwise the
        engine's `whole_pipeline` decides about the first command as well.
    most_batches
        How many batches of keys the main thread may look up together.
    locks_items
        Whether a command holds the lock of its item while it is executed.
    keeps_replies
        Whether replies that wait for the append-only file are modelled.
    samples_load
        Whether the main thread samples its load to start and stop I/O threads, one at a time.
    replies_per_thread
        I/O threads are used in a turn that has this many replies to write for every thread; 0 where
        there is no such rule.
    default_threads
        Threads that an engine runs whose configuration says nothing.
    settings
        Fields of a scenario that only some policies have: those of this one.
    configuration
        What sets the recommended threads. `{io_threads}`, `{settings}` (a line for each setting
        that differs from the engine's own) and `{tls}` are filled in.
    tls_configuration
        What `{tls}` stands for in a scenario with TLS.
    configuration_file
        What the configuration is; empty for the configuration file of the engine.
    caveat
        Why every prediction under this policy may be off, `{engine}` filled in; empty if nothing
        has to be said.
    """

    name: str
    reference: str
    compiled: str
    first_owner: int | None = None
    threads_sleep: bool = False
    hand_over: HandOver = "none"
    parses_first: bool = True
    most_batches: int = 1
    locks_items: bool = False
    keeps_replies: bool = False
    samples_load: bool = False
    replies_per_thread: int = 0
    default_threads: int = 1
    settings: frozenset[str] = frozenset()
    configuration: str = "io-threads {io_threads}\n{settings}{tls}"
    tls_configuration: str = (
        "port 0\ntls-port 6379\ntls-cert-file FILE\ntls-key-file FILE\n"
        "tls-ca-cert-file FILE\ntls-auth-clients no\n"
    )
    configuration_file: str = ""
    caveat: str = ""

    @property
    def threads_alike(self) -> bool:
        """Whether no thread is the main thread: all of them own clients and execute."""
        return self.first_owner == 0

    def reference_module(self) -> ModuleType:
        """The SimPy execution: `start(node)` begins its processes."""
        return import_module(self.reference)
