"""The threading policies that engines have, and the one registry of them."""

from __future__ import annotations

from .policy import Policy
from .setup import NodeSetup

_REFERENCE = "forecache.models.node.reference"

SINGLE_THREAD = Policy(
    name="single_thread",
    reference=f"{_REFERENCE}.node",
    compiled="single_thread",
    threads_sleep=True,
    keeps_replies=True,
    configuration="",
)
"""With one thread every engine follows this one, whatever its own policy; Redis before 6.0 has no
other."""

_ASYNCHRONOUS = Policy(
    name="asynchronous",
    reference=f"{_REFERENCE}.asynchronous",
    compiled="asynchronous",
    hand_over="rings",
    keeps_replies=True,
    settings=frozenset({"events_per_io_thread"}),
)

_SHARED_QUEUES = Policy(
    name="shared_queues",
    reference=f"{_REFERENCE}.shared_queues",
    compiled="shared_queues",
    hand_over="shared_queue",
    keeps_replies=True,
    samples_load=True,
)

_FORK_JOIN = Policy(
    name="fork_join",
    reference=f"{_REFERENCE}.fork_join",
    compiled="fork_join",
    hand_over="turns",
    keeps_replies=True,
    replies_per_thread=2,
    settings=frozenset({"io_threads_do_reads"}),
)

_MULTIPLEXED = Policy(
    name="multiplexed",
    reference=f"{_REFERENCE}.multiplexed",
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
    reference=f"{_REFERENCE}.owning_threads",
    compiled="owning_threads",
    first_owner=1,
    threads_sleep=True,
    hand_over="clients",
    most_batches=2,
)

_LOCKED_THREADS = Policy(
    name="locked_threads",
    reference=f"{_REFERENCE}.locked_threads",
    compiled="locked_threads",
    first_owner=0,
    threads_sleep=True,
    locks_items=True,
    default_threads=4,
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
