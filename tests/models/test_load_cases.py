"""Mistakes that only show with the engine and host a scenario names: file, field, found, valid."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forecache.models.advice.answers import load_cases
from forecache.sim.errors import InputError

BASE: dict[str, Any] = {"host": "graviton3-c7g.4xlarge", "engine": "valkey-8.0"}
ZADD = {"mix": {"get": 0.5, "zadd": 0.5}, "sorted_sets": {"keys": 10, "members": 10}}
HUGE = 512 * 2**20


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            {"engine": "memcached", "workload": ZADD},
            ["'workload.mix': found zadd", "valid with memcached-1.6 is get and set"],
        ),
        (
            {"engine": "memcached", "persistence": {"aof": "everysec"}},
            ["'persistence.aof': found 'everysec'", "valid with memcached-1.6 is none"],
        ),
        (
            {"engine": "elasticache-redis-7.1", "replicas": 2},
            ["'replicas': found 2", "valid with elasticache-redis-7.1 is 0"],
        ),
        ({"engine": "valkye"}, ["'engine': found 'valkye'", "did you mean 'valkey'"]),
        (
            {"engine": "dragonfly"},
            ["'engine': found 'dragonfly'", "profile id: elasticache-redis,"],
        ),
        (
            {"workload": {"clients": 650, "value_bytes": HUGE}},
            ["'workload.value_bytes': found 325 GiB", "650 clients", "512 MiB", "64 GiB"],
        ),
        (
            {
                "workload": {
                    "clients": 100,
                    "mix": {"hgetall": 1.0},
                    "hashes": {"keys": 1, "fields": 10**6, "value_bytes": 2**16},
                }
            },
            ["'workload.hashes': found", "100 clients"],
        ),
    ],
)
def test_a_mistake_names_file_field_found_and_valid(
    data: dict[str, Any], told: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**BASE, **data}))
    with pytest.raises(InputError) as caught:
        load_cases(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: field ")
    for words in told:
        assert words in message
    assert message.count("valid") == 1


def test_few_clients_may_ask_for_the_largest_values() -> None:
    assert load_cases({**BASE, "workload": {"clients": 128, "value_bytes": HUGE}})
