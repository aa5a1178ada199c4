"""`python -m verification` as a person runs it, and the closed forms it trusts."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def verification(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "verification", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_two_checks_run_and_pass(tmp_path: Path) -> None:
    """One of a closed form, and a sample of damaged inputs, which ends with sentences."""
    file = tmp_path / "findings.json"
    sample = ("--count", "12", "--seed", "3")
    done = verification("md1", "fuzz", *sample, "--jobs", "2", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("pass  load") == 3
    assert done.stdout.index("md1:") < done.stdout.index("pass  load") < done.stdout.index("fuzz:")
    assert "seed 3, 12 inputs" in done.stdout
    results = json.loads(file.read_text(encoding="utf-8"))
    assert results["passed"]
    assert [check["name"] for check in results["checks"]] == ["md1", "fuzz"]
    assert all(check["findings"] for check in results["checks"])


def test_the_list_names_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    from verification.__main__ import main

    assert main(["--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"mm1", "mmc", "md1", "mg1", "repairman", "coverage", "mser5"} <= set(names)


def test_an_unknown_check_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    from verification.__main__ import main

    with pytest.raises(SystemExit) as refused:
        main(["mm2"])
    assert refused.value.code == 2
    assert "no check named mm2; there are mm1" in capsys.readouterr().err


def test_a_failed_finding_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    from verification.__main__ import run
    from verification.check import Check, within_range

    wrong = Check("wrong", "is wrong", lambda: [within_range("x", 1.0, 3.0, 0.0, 2.0)])
    assert run([wrong])["passed"] is False
    assert "FAIL  x" in capsys.readouterr().out


# Erlang C of two servers is 2 load^2 / (1 + load); beside it, special cases in which two formulas
# must agree.
def test_closed_forms_agree_where_they_meet() -> None:
    from verification.queueing import closed_forms as known

    assert known.erlang_c(1, 0.7) == pytest.approx(0.7)
    assert known.erlang_c(2, 0.7) == pytest.approx(2 * 0.7**2 / 1.7)
    assert known.mmc_mean_sojourn(1, 0.8) == pytest.approx(known.mg1_mean_sojourn(0.8, 1.0))
    assert known.mmc_sojourn_quantile(1, 0.8, 0.99) == pytest.approx(-math.log(0.01) / 0.2)
    # As many repairmen as machines: every machine on its own.
    assert known.repairman_working(5, 5, 9.0, 1.0) == pytest.approx(4.5)
    # One machine, one repairman: the same.
    assert known.repairman_working(1, 1, 9.0, 1.0) == pytest.approx(0.9)
