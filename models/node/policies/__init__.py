"""The threading policies that engines have: one record each, which says all in which they differ.

A policy is how an engine's threads divide the work of a request. Its two executions are a module
here (`reference.py` for a single thread) and a C file in `native/`; everything else that the rest
of the model has to know of it is a field of its record, so that no other module asks for a policy
by its name. `io_threads.py` is what three of them share.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Literal

from ..setup import NodeSetup

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


SINGLE_THREAD = Policy(
    name="single_thread",
    reference="forecache.models.node.reference",
    compiled="single_thread",
    threads_sleep=True,
    keeps_replies=True,
    configuration="",
)
"""With one thread every engine follows this one, whatever its own policy; Redis before 6.0 has no
other."""

_ASYNCHRONOUS = Policy(
    name="asynchronous",
    reference="forecache.models.node.policies.asynchronous",
    compiled="asynchronous",
    hand_over="rings",
    keeps_replies=True,
    settings=frozenset({"events_per_io_thread"}),
)

_SHARED_QUEUES = Policy(
    name="shared_queues",
    reference="forecache.models.node.policies.shared_queues",
    compiled="shared_queues",
    hand_over="shared_queue",
    keeps_replies=True,
    samples_load=True,
)

_FORK_JOIN = Policy(
    name="fork_join",
    reference="forecache.models.node.policies.fork_join",
    compiled="fork_join",
    hand_over="turns",
    keeps_replies=True,
    replies_per_thread=2,
    settings=frozenset({"io_threads_do_reads"}),
)

_MULTIPLEXED = Policy(
    name="multiplexed",
    reference="forecache.models.node.policies.multiplexed",
    compiled="multiplexed",
    first_owner=1,
    threads_sleep=True,
    hand_over="batches",
    parses_first=False,
    configuration=(
        "# ElastiCache sets its threads by the size of the instance; they can't be changed.\n"
        "# {io_threads} is what to look for in an instance: more would bring little, fewer lose\n"
        "# what is told above.\n"
    ),
    configuration_file="The service's own settings",
    caveat=(
        "how the threads of {engine} share work is assumed: Amazon publishes what they do, not how"
    ),
)

_OWNING_THREADS = Policy(
    name="owning_threads",
    reference="forecache.models.node.policies.owning_threads",
    compiled="owning_threads",
    first_owner=1,
    threads_sleep=True,
    hand_over="clients",
    most_batches=2,
)

_LOCKED_THREADS = Policy(
    name="locked_threads",
    reference="forecache.models.node.policies.locked_threads",
    compiled="locked_threads",
    first_owner=0,
    threads_sleep=True,
    locks_items=True,
    configuration="-t {io_threads}{tls}\n",
    tls_configuration=" -Z -o ssl_chain_cert=FILE,ssl_key=FILE",
    configuration_file="memcached options",
)

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        SINGLE_THREAD,
        _ASYNCHRONOUS,
        _SHARED_QUEUES,
        _FORK_JOIN,
        _MULTIPLEXED,
        _OWNING_THREADS,
        _LOCKED_THREADS,
    )
}
"""Every policy by its name."""


def running(policy: str, *, io_threads: int) -> Policy:
    """The policy that runs with this many threads, including the main thread."""
    return POLICIES[policy] if io_threads > 1 else SINGLE_THREAD


def under_policy(policy: str, setup: NodeSetup) -> NodeSetup:
    """The setup, with the threads that watch sockets under a policy."""
    first = POLICIES[policy].first_owner
    if first is None or setup.io_threads == 1:
        return setup._replace(first_owner=0, owners=1)
    # None of them is ever stopped.
    return setup._replace(
        first_owner=first, owners=setup.io_threads - first, initial_active=setup.io_threads
    )
