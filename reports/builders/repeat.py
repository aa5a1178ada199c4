"""How to repeat an answer, and how to cite it: the last sections of every page and paper."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecache.models.results.displayed import Provenance
from forecache.sim.native.toolchain import wheel_platform

from ..document import Code, Document, Facts, Part, Section, Text
from ..text.formats import is_number, listed, plain
from ..text.repeat import Question

TITLE = "forecache: predicting how in-memory key-value engines scale on given hardware"
AUTHORS = "The forecache contributors"
"""As CITATION.cff has them, which is not installed."""

_ELSEWHERE = {"command", "bundle"}
"""Of what made an answer: the command stands above, the bundle's hash below."""


def repeat_sections(made: Document, provenance: Provenance, question: Question) -> list[Section]:
    """What was asked, with everything that it takes to ask again."""
    version = provenance.forecache_version
    wheel = wheel_name(version, provenance.machine)
    again = "\n".join(question.again)
    # Files of a study are attached, and lie beside its results.
    files = [*question.scenarios, *(() if question.again else question.kept)]
    save = _save_words([name for name, _ in files], question.too_large)
    parts: list[Part] = [
        Text(
            f"It takes Linux, Python 3.11 or newer, and forecache {version} as the wheel "
            f"`{wheel}`, which `make wheel` writes to dist/ in a checkout of that version, for "
            "another machine too. No package index has it: ask the authors of this report for "
            "either. In an empty folder with the wheel:"
        ),
        Code(install_lines(wheel, extra=made.needs), "installation", shell=True),
    ]
    ask: list[Part] = [
        *([Text(save)] if save else []),
        Code(question.command, "command", shell=True),
        *([Text(made.measured)] if made.measured else []),
    ]
    if again:
        kept = listed([name for name, _ in question.kept])
        parts += [
            Section(
                "The predictions, from the same measurements",
                [
                    Text(
                        f"{kept} are attached to the PDF, and lie beside study.json. Save them in "
                        "that folder, as a PDF reader or `pdfdetach -saveall` does; "
                        "`sha256sum *.yaml` prints the hashes below. Then run this, which ends "
                        "with exit code 3 where no setting meets the objective:"
                    ),
                    Code(again, "predict again", shell=True),
                    Text(
                        "Throughput, latency and intervals of every setting are the same again; "
                        "`--json` prints all of them."
                    ),
                ],
            ),
            Section("The measurements, and all that follows", ask),
        ]
    else:
        parts += ask
    rows = provenance_rows(provenance.to_dict())
    parts += [
        *(Section(name, [Code(text, name)]) for name, text in files),
        Section("Versions and seed", [Facts([row for row in rows if row[0] not in _ELSEWHERE])]),
    ]
    if question.hashes:
        hashes = [(f"SHA-256 of {name}", digest) for name, digest in question.hashes.items()]
        same = (
            "Every report lists the hash of the models and the catalogue that made it: where it is "
            "the same, so are they."
        )
        parts.append(Section("Hashes", [Facts(hashes), Text(same)]))
    entry = bibtex(version=version, year=provenance.date[:4])
    # On a page of its own, to be taken alone.
    return [
        Section("How to repeat it", parts, anchor="repeat", begins_page=True),
        Section("How to cite it", [Code(entry, "BibTeX entry")]),
    ]


_VENV = "venv"


def wheel_name(version: str, machine: str) -> str:
    """The file that `make wheel` writes for a machine: `forecache-0.1.0-py3-none-….whl`."""
    return f"forecache-{version}-py3-none-{wheel_platform(machine)}.whl"


def install_lines(wheel: str, *, extra: str = "") -> str:
    """Commands after which `forecache` is what made an answer, where its wheel lies."""
    what = f"'./{wheel}[{extra}]'" if extra else f"./{wheel}"
    return (
        f"python3 -m venv {_VENV}\n"
        f"{_VENV}/bin/python -m pip install {what}\n"
        f'export PATH="$PWD/{_VENV}/bin:$PATH"'
    )


def _save_words(names: Sequence[str], too_large: Sequence[str]) -> str:
    """What to do before the command is run; nothing where there is no scenario."""
    if not names:
        return ""
    those = "each file" if len(names) > 1 else "the scenario"
    words = f"Save {those} below as {listed(names)}"
    if too_large:
        are = "are" if len(too_large) > 1 else "is"
        words += f", with {listed(too_large)} beside, which {are} too large for this report,"
    return f"{words} and run:"


def bibtex(*, version: str, year: str) -> str:
    """The entry of this version for a bibliography."""
    rows = {
        "author": f"{{{AUTHORS}}}",
        "title": f"{{{TITLE}}}",
        "version": version,
        "year": year,
        "note": "Computer software, Apache-2.0",
    }
    fields = "".join(f"  {name:8}= {{{value}}},\n" for name, value in rows.items())
    return f"@software{{forecache,\n{fields}}}"


def provenance_rows(source: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested names and values as labelled texts, one row each."""
    found: list[tuple[str, str]] = []
    for key, value in source.items():
        label = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            found.extend(provenance_rows(value, f"{label} "))
        elif str(key).endswith("_s") and is_number(value):
            found.append((label.removesuffix(" s"), f"{plain(value)} s"))
        else:
            found.append((label, plain(value)))
    return found
