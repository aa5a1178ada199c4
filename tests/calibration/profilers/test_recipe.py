"""The recipe runs in a plain shell, and what it writes is read as a bundle."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.observe.design import design_points
from forecache.calibration.observe.recipe import import_recipe, recipe
from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError
from tests.live_engine import need

POINTS = [
    Conditions(command="get", clients=20),
    Conditions(command="set", pipeline=16, clients=20, value_bytes=64, role="holdout"),
]

TICK_S = 0.01
"""Of /proc/uptime, and of the CPU times of processes and threads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled by the recipe with redis-server."""
    need("redis-server", "redis-benchmark", "redis-cli")
    base = tmp_path_factory.mktemp("recipe")
    script = base / "recipe.sh"
    script.write_text(recipe(POINTS, tool="forecache", engine="redis-server"))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    settings = {"WINDOW_S": "1", "REPETITIONS": "2", "PORT": str(port)}
    done = subprocess.run(
        ["sh", str(script), str(base / "with space")],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return base / "with space"


def test_a_run_is_read_as_a_bundle(folder: Path) -> None:
    bundle = import_recipe(folder)
    assert [point.given for point in bundle.points] == POINTS
    assert (bundle.manifest.engine.name, bundle.manifest.method.tool) == (
        "redis",
        "redis-benchmark",
    )
    assert len(bundle.manifest.engine.sha256) == 64
    assert bundle.config["io-threads"] == "1"
    one, deep = bundle.points
    for point in (one, deep):
        assert len(point.repetitions) == 2
        for r in point.repetitions:
            assert r.requests >= 20_000
            assert r.misses == r.errors == 0
            # What else the machine does slows the run that says how many requests fill the window,
            # and then few do: a repetition may last no more than a few ticks of its clocks.
            ticks = 3 * TICK_S / r.duration_s
            assert 0.05 - ticks < r.main_thread_utilisation < 1.1 + ticks
            assert 0 <= r.generator_utilisation < 1.2 + ticks
            # The tool's own clock leaves its start out.
            ticks = 3 * TICK_S * r.throughput_rps / r.requests
            assert r.throughput_rps * r.main_thread_cpu_ns_per_request < (1.5 + ticks) * 1e9
        assert bundle.info_text(point)
    assert one.median("generator_utilisation") > 0
    assert one.median("reads_per_request") == pytest.approx(1, rel=0.02)
    assert deep.median("reads_per_request") == pytest.approx(1 / 16, rel=0.1)
    cpu = "main_thread_cpu_ns_per_request"
    assert deep.median(cpu) < 0.6 * one.median(cpu)
    assert not Path(
        "/proc", (folder / "points/001/1/after.tasks").read_text().split("|")[0]
    ).exists()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("recipe.txt", "forecache-recipe/9 redis-benchmark\n", "valid is forecache-recipe/1"),
        ("recipe.txt", "", "is empty"),
        ("nproc.txt", "many\n", "nproc.txt, line 1"),
        ("server.info", "# Server\n", "names no version"),
        ("points/001/given.json", "{", "given.json: no JSON"),
        ("points/001/given.json", '{"command": "dig"}', "field 'command'"),
        ("points/001/1/before.tasks", "7|a|1 2\n", "before.tasks, line 1"),
        ("points/001/1/after.tasks", "7|a|1 2 3|4 5\n", "names no thread of"),
        ("points/001/1/after.times", "0m0s 0m0s\n", "after.times, line 2"),
        ("points/001/1/after.uptime", "0.01\n", "valid is later than before"),
        ("points/001/1/bench.out", "Segmentation fault\n", "bench.out"),
        ("points/001/1/requests", "0\n", "requests, line 1"),
    ],
)
def test_damage_is_named(file: str, text: str, message: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / file).write_text(text)
    with pytest.raises(InputError, match=r"^\S.*copy") as caught:
        import_recipe(copy)
    assert message in str(caught.value)


def test_counters_and_samples_of_the_recipe(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    perf = copy / "points/001/perf"
    shutil.rmtree(perf, ignore_errors=True)
    perf.mkdir()
    (perf / "version.txt").write_text("perf version 6.8.0\n")
    (perf / "requests").write_text("1000\n")
    (perf / "after.tasks").write_text("7|redis-server|1 2 3|4 5\n")
    (perf / "stat.txt").write_text(
        "5000000;;cycles;9;100.00;;\n<not supported>;;llc_miss;0;0.00;;\n"
    )
    (perf / "script.txt").write_text(
        "redis-server 7/7 1.000000:     250000 cpu-clock: \n\t      10 call (/usr/bin/redis)\n\n"
    )
    clock, counters = import_recipe(copy).profiles
    assert clock.threads[0].stages[0].stage == "execute"
    assert clock.threads[0].role == "main"
    assert [(c.event, c.per_request) for c in counters.counters] == [
        ("cycles", 5000.0),
        ("llc_miss", None),
    ]
    # An engine without a map keeps its counters, and the samples are left aside, said so.
    (copy / "server.info").write_text("# Server\nredis_version:9.0.0\n")
    bundle = import_recipe(copy)
    assert [profile.profiler for profile in bundle.profiles] == ["perf"]
    assert "whose functions no map" in bundle.manifest.warnings[0]


@pytest.mark.parametrize(
    "file", ["points/002/1/before.info", "points/002/2/after.tasks", "config.txt", "sha256.txt"]
)
def test_a_missing_file_is_named(file: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / file).unlink()
    with pytest.raises(InputError, match=f"{file}: no such file"):
        import_recipe(copy)


@pytest.mark.parametrize("tool", ["forecache", "valkey-benchmark", "memtier_benchmark"])
def test_the_script_is_plain_shell(tool: str, tmp_path: Path) -> None:
    script = tmp_path / "recipe.sh"
    text = recipe(design_points("full"), tool=tool, engine=None, host=load_host("c7g.4xlarge"))
    script.write_text(text)
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert "armv8_pmuv3_0/event=0x17,name=l2_refill/" in text
    assert "987654321" not in text
    assert "open_loop" not in text
    # Long values are made by the script.
    assert "vvvvvvvv" not in text
    points = [line for line in text.splitlines() if line.startswith("point ")]
    assert len(points) == len({line.split()[1] for line in points}) > 40
