"""The study of a node's life: `make evidence STUDY=node-life`, ONLY for one of its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.sim.errors import InputError

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..live import rounds
from . import exact, instructions
from .cases import ENGINES
from .measure import PARTS, keep, run_cases
from .page import ARTEFACT, PAGE, lines
from .predict import predict_rows, work_of

FOLDER = Path("evidence/node_life")
"""A folder per host: its profile, and what was measured. Instructions are those of any host."""
COUNTED, EXACT = FOLDER / "instructions.json", FOLDER / "exact.json"
ALL = (*PARTS, "instructions", "exact")


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` is as in the study generations."""
    parts = asked.only or ALL
    unknown = sorted(set(parts) - set(ALL))
    if unknown:
        raise InputError(f"node-life: found the part {unknown[0]}; valid is {', '.join(ALL)}.")
    with rounds.engines_at_hand() as (_, unpacked):
        engines = [rounds.engine_of(unpacked, id_) for id_ in ENGINES]
        live = [part for part in parts if part in PARTS]
        if live:
            host = capture_host(progress=asked.progress)
            folder = FOLDER / host.id
            rounds.keep_host(folder, host)
            for part in live:
                cases, of_case, at_a_time = PARTS[part]
                run_cases(cases, of_case, engines, folder / f"{part}.json", asked.progress,
                          at_a_time=at_a_time)  # fmt: skip
        if "instructions" in parts:
            for engine in engines:
                for row in instructions.count(engine, asked.progress):
                    keep(COUNTED, row)
    found = {EXACT: json_text(exact.compare(asked.progress))} if "exact" in parts else {}
    return {**found, **predict(asked)}


def predict(asked: Asked) -> Files:
    """Predict what was measured on each host; ONLY for one part, the others as they are."""
    known = json.loads(ARTEFACT.read_text(encoding="utf-8")) if ARTEFACT.exists() else {}
    before = {host["id"]: host for host in known.get("hosts", [])}
    parts = [part for part in PARTS if part in (asked.only or PARTS)]
    hosts = []
    for folder in sorted(path for path in FOLDER.iterdir() if (path / rounds.HOST_FILE).exists()):
        at = folder / rounds.HOST_FILE
        host = load_host(str(at))
        date = "" if host.captured is None else str(host.captured.date)[:10]
        said = {part: before.get(folder.name, {}).get(part, []) for part in PARTS}
        for part in parts:
            rows = _rows(folder / f"{part}.json")
            said[part] = predict_rows(part, rows, str(at), asked.progress, before=said[part])
        hosts.append({"id": folder.name, "title": host.title, "date": date, **said})
    counted = _rows(COUNTED)
    work = {id_: work_of(id_) for id_ in sorted({row["engine"] for row in counted})}
    return {ARTEFACT: json_text({"hosts": hosts, "counted": counted, "work": work})}


def _rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def pages() -> Files:
    """`docs/node-life.md`."""
    found = json.loads(ARTEFACT.read_text(encoding="utf-8"))
    return {PAGE: "\n".join(lines(found, _rows(EXACT))) + "\n"}
