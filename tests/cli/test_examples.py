"""The scenarios that come along can be read, and each says how to run it."""

from pathlib import Path

import pytest

from forecache.commands import all_commands
from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import read_yaml
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.source import KINDS, NODE, content_of, read_scenario
from forecache.models.scenario.sweeps import expand

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path: Path) -> None:
    data = read_yaml(path)
    cases = expand(data, file=str(path), schema=KINDS[data.get("kind", NODE)].schema)
    assert cases
    # Examples are in the form of the schemas, which reading leaves as it is.
    assert read_scenario(path).data == content_of(path)
    for case in cases:
        if isinstance(case.scenario, Scenario):
            assert case.scenario.host is not None
            # More threads than cores would collapse, which no example should suggest.
            assert case.scenario.io_threads <= load_host(case.scenario.host).speed().cores
    verbs = {str(command.name) for command in all_commands()}
    hints = [line.split() for line in path.read_text().splitlines() if "#   forecache " in line]
    assert hints
    for _, program, verb, scenario, *_ in hints:
        assert (program, scenario) == ("forecache", f"examples/{path.name}")
        assert verb in verbs


def test_there_are_examples() -> None:
    assert {"quickstart.yaml"} <= {path.name for path in EXAMPLES}
