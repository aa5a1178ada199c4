"""Help: every verb says what it does, what it takes, and how it is typed."""

import shlex
from pathlib import Path

import click
import pytest

from evidence.documents import cli as document
from forecache import cli
from forecache.commands import all_commands
from forecache.verbs import VERBS

by_name = pytest.mark.parametrize("command", all_commands(), ids=lambda command: str(command.name))


@by_name
def test_help_has_an_example_and_json(
    command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([str(command.name), "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert "--json" in text
    for line in VERBS[str(command.name)].examples:
        assert f"    {line}\n" in text
    assert VERBS[str(command.name)].examples


@by_name
def test_examples_parse(command: click.Command) -> None:
    for line in VERBS[str(command.name)].examples:
        program, verb, *arguments = shlex.split(line)
        assert program == "forecache"
        named = {str(other.name): other for other in all_commands()}[verb]
        with named.make_context(verb, arguments) as context:
            assert not context.args


@by_name
def test_files_of_the_examples_exist_or_are_made_by_them(
    command: click.Command, checkout: Path
) -> None:
    made: set[str] = set()
    for line in VERBS[str(command.name)].examples:
        words = shlex.split(line)
        for word in words[2:]:
            if "/" in word or word.endswith(".yaml"):
                after_out = words[words.index(word) - 1] == "--out"
                assert after_out or word in made or (checkout / word).exists(), line
        made |= {words[number + 1] for number, word in enumerate(words) if word == "--out"}


def test_the_list_of_verbs_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["--help"])
    text = capsys.readouterr().out
    assert "..." not in text.split("Commands:")[1]
    for command in all_commands():
        assert f"\n  {command.name}" in text


def test_without_a_verb_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_the_page_is_what_the_command_line_says(checkout: Path) -> None:
    page = (checkout / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == document.page(), "run `make docs`"


def test_the_page_of_the_python_functions_has_every_verb(checkout: Path) -> None:
    page = (checkout / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in VERBS if f"::: forecache.verbs.{name}\n" not in page] == []
