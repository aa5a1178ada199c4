"""Where nodes are: apart from others of their shard, evenly, and as a list says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles.files import FieldError
from forecache.models.over_time.cluster.placement import NodePlacement, place


def cluster(shards: int, replicas: int) -> list[int]:
    """Shards of primaries and then of their replicas, as nodes are numbered."""
    return [*range(shards), *(shard for shard in range(shards) for _ in range(replicas))]


def most_together(where: np.ndarray, shards: list[int]) -> int:
    """The most nodes of one shard that are at one place."""
    return max(
        int(np.bincount(where[np.array(shards) == shard]).max()) for shard in sorted(set(shards))
    )


@given(
    shards=st.integers(1, 12), replicas=st.integers(0, 3), machines=st.integers(1, 12),
    zones=st.integers(1, 4),
)  # fmt: skip
def test_nodes_of_a_shard_lie_apart_as_far_as_they_can(
    shards: int, replicas: int, machines: int, zones: int
) -> None:
    nodes = cluster(shards, replicas)
    found = place(nodes, machines=machines, zones=zones)
    # No more of a shard are together than its nodes make it necessary.
    assert most_together(found.machine, nodes) == -(-(1 + replicas) // machines)
    here = min(zones, machines)
    even = machines % here == 0
    if even:
        assert most_together(found.zone, nodes) == -(-(1 + replicas) // here)
    # Primaries are spread evenly.
    primaries = np.bincount(found.machine[:shards], minlength=machines)
    assert primaries.max() - primaries.min() <= 1


def test_every_node_has_a_machine_of_its_own_and_shards_are_spread_over_zones() -> None:
    found = place(cluster(6, 2), zones=3)
    assert sorted(found.machine) == list(range(18))
    assert most_together(found.zone, cluster(6, 2)) == 1
    assert np.bincount(found.zone).tolist() == [6, 6, 6]


def test_a_machine_that_fails_leaves_its_load_to_several_others() -> None:
    found = place(cluster(12, 1), machines=4, zones=2)
    partners = [set(found.machine[12:][found.machine[:12] == each]) for each in range(4)]
    assert all(len(each) == 2 for each in partners)


def test_lists_say_where_nodes_are() -> None:
    found: NodePlacement = place(cluster(2, 1), machines=[[0, 3], [1, 2]], zones=[[1], [0]])
    assert found.machine.tolist() == [0, 1, 1, 0]
    assert found.zone.tolist() == [1, 0, 0, 1]
    # What was added since has a machine of its own.
    assert place([0, 1, 2], machines=[[0, 1]]).machine.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("machines", "zones", "says"),
    [
        ([[0, 0], [1]], 3, "machines: found '0 twice'"),
        ([[0, 5]], 3, "machines: found 5; valid is numbers from 0 to 1"),
        ([[0], [1]], [[0]], "zones: found 'no zone of machine 1'"),
    ],
)
def test_lists_that_do_not_fit(machines: list[list[int]], zones: object, says: str) -> None:
    with pytest.raises(FieldError) as caught:
        place([0, 1], machines=machines, zones=zones)  # type: ignore[arg-type]
    error = caught.value
    assert says in f"{error.field}: found {error.found!r}; valid is {error.valid}"
