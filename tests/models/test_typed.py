"""What people type into scenarios: each input beside what becomes of it, as reviewed sentences.

`data/typed.txt` holds both. After a change `python -m tests.models.test_typed` writes what becomes
of the inputs now, to be read aloud before it is committed; `pytest -s` prints it.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from forecache.models.advice.cases import load_cases
from forecache.models.plan.answer import load_plan
from forecache.models.scenario.source import KINDS, read_scenario
from forecache.models.scenario.sweeps import expand
from forecache.sim.errors import InputError

SNAPSHOT = Path(__file__).with_name("data") / "typed.txt"

BASES = {
    "node": "host: c7g.4xlarge\nengine: valkey\n",
    "memory": "engine: valkey\nhost: r7g.large\ndata:\n- {type: string, keys: 1000}\n",
    "cost": "kind: cost\ndata_gb: 10\nrequests: [{command: get, per_s: 1000}]\n",
    "cluster": "kind: cluster\nduration_s: 60\n"
    "cluster: {host: c7g.large, engine: valkey}\ndata: {keys: 1000}\nclients: {pods: 4}\n"
    "demand: {rate_rps: 1000}\n",
    "plan": "kind: plan\ndemand: {operations: {get: 1000}}\nobjectives: {slo: {p99_ms: 1}}\n"
    "choices: {instances: [r7g.large], engines: [valkey]}\n",
}
"""A file of each kind, whose fields the inputs replace or are added to."""

ARROW = "→"


def blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind and field that each input stands in, the input, and what becomes of it."""
    for block in text.split("\n\n# ")[1:]:
        place, _, rest = block.partition("\n")
        given, _, becomes = rest.partition(ARROW)
        yield place, given, becomes.strip()


def written(place: str, given: str) -> str:
    """The whole file of an input."""
    kind, _, field = place.partition(" ")
    if field == "file":
        return given
    text = f"{field}:\n{textwrap.indent(given, '  ')}" if field else given
    top = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    blocks = re.split(r"^(?=\w)", BASES[kind], flags=re.MULTILINE)
    return "".join(each for each in blocks if each.partition(":")[0] not in top) + text


def leaves(data: Any, path: str = "") -> dict[str, Any]:
    """Values of nested data by their paths."""
    if isinstance(data, dict):
        items = [(f"{path}.{key}" if path else str(key), value) for key, value in data.items()]
    elif isinstance(data, list):
        items = [(f"{path}[{place}]", value) for place, value in enumerate(data)]
    else:
        return {path: data}
    return {name: leaf for key, value in items for name, leaf in leaves(value, key).items()}


def read(kind: str, file: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Of each point of a file the swept fields and all that its schema made of it."""
    if kind == "plan":
        return [({}, load_plan(file)[0].model_dump())]
    if kind == "node":
        return [(case.given, case.scenario.model_dump()) for case, _ in load_cases(file)]
    source = read_scenario(file)
    schema = KINDS[source.kind([kind])].schema
    cases = expand(source.data, file=source.name, schema=schema)
    return [(case.given, case.scenario.model_dump()) for case in cases]


def becomes(place: str, given: str, folder: Path) -> str:
    """What an input becomes: fields with their values, the points of a sweep, or a message."""
    kind = place.partition(" ")[0]
    file, base = folder / "scenario.yaml", folder / "base.yaml"
    base.write_text(BASES[kind])
    file.write_text(written(place, given))
    try:
        points = read(kind, file)
    except InputError as error:
        return str(error).replace(f"{folder}/", "")
    if len(points) > 1:
        return "a sweep: " + "; ".join(
            ", ".join(f"{name} {value}" for name, value in given.items()) for given, _ in points
        )
    [(_, before)], [(_, after)] = read(kind, base), points
    known = leaves(before)
    changed = {k: v for k, v in leaves(after).items() if k not in known or known[k] != v}
    text = ", ".join(f"{k} {v!r}" for k, v in changed.items() if v is not None)
    return text or "as without it"


def snapshot(text: str, folder: Path) -> str:
    """The file as it should be, from the inputs in it."""
    head = text.partition("\n\n# ")[0]
    parts = [
        f"# {place}\n{given}{ARROW} {becomes(place, given, folder)}"
        for place, given, _ in blocks(text)
    ]
    return "\n\n".join([head, *parts]) + "\n"


def test_what_people_type_is_taken_or_told_in_a_sentence(tmp_path: Path) -> None:
    text = SNAPSHOT.read_text(encoding="utf-8")
    found = snapshot(text, tmp_path)
    print(found)
    assert len(list(blocks(text))) >= 60
    assert found == text
    for _, _, told in blocks(found):
        assert "Traceback" not in told
        assert "\n" not in told


def test_a_file_in_json_says_what_it_says_in_yaml(tmp_path: Path) -> None:
    import json

    for kind, text in BASES.items():
        file = tmp_path / f"{kind}.json"
        file.write_text(json.dumps(yaml.safe_load(text), indent="\t"))
        same = tmp_path / f"{kind}.yaml"
        same.write_text(text)
        assert read(kind, file) == read(kind, same)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        SNAPSHOT.write_text(snapshot(SNAPSHOT.read_text(encoding="utf-8"), Path(name)), "utf-8")
