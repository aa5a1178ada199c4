"""Builds the site of the documentation, without network: `python -m evidence.documents.site`.

Zensical builds it, the successor of Material for MkDocs, from `mkdocs.yml`. Pages are written for a
forge. They are copied to a folder of their own, each at its path in the checkout and beside the
files that it links to, so that every relative link also works on the site; a folder that is linked
to gets a page that lists it. The navigation is the list of pages in docs/README.md. A broken link
or anchor stops the build.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forecache.sim.errors import ForecacheError, InputError
from forecache.sim.installing import install_command

from ..harness import say

CHECKOUT = Path(__file__).resolve().parents[2]
LIST = Path("docs/README.md")
ASSETS = Path("docs/site")
WORKER = "file-worker.js"
"""Of these, what takes the place of the script that the theme loads for search in files."""
SCRIPTS = {Path("docs/accuracy.js"): Path("docs/accuracy.json")}
"""JSON that a page of the site reads: as a script, since a page opened as a file may not fetch."""
ROOMS = ("sim", "hwprofiles", "models", "calibration", "reports")

_LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_THEMES_WORKER = "https://unpkg.com/iframe-worker/shim"
_LISTED = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\):", re.MULTILINE)


def pages(checkout: Path = CHECKOUT) -> list[Path]:
    """Every page of the site, by its path in the checkout; those that others link to included."""
    found = [LIST, Path("README.md")]
    found += sorted(path.relative_to(checkout) for path in checkout.glob("docs/*.md"))
    for page in found:  # which grows meanwhile
        linked = [path for path, _ in _links(checkout, page) if path.suffix == ".md"]
        found += [path for path in linked if path not in found]
    return list(dict.fromkeys(found))


def navigation(checkout: Path = CHECKOUT) -> list[dict[str, Any]]:
    """Groups of pages as docs/README.md lists them; what it does not list comes last, as `More`."""
    text = (checkout / LIST).read_text(encoding="utf-8")
    groups: list[dict[str, Any]] = []
    listed = {LIST}
    for part in text.split("\n## ")[1:]:
        items: list[Any] = []
        for title, link in _LISTED.findall(part):
            path = _inside(checkout, checkout / LIST.parent / link)
            listed.add(path)
            items.append({title: path.as_posix()})
        groups.append({part.splitlines()[0].strip(): items})
    groups[0] = {
        name: [*items, {"All pages": LIST.as_posix()}] for name, items in groups[0].items()
    }
    others = [page.as_posix() for page in pages(checkout) if page not in listed]
    return [*groups, {"More": others}] if others else groups


def unlisted(checkout: Path = CHECKOUT) -> list[str]:
    """Pages that docs/README.md does not list."""
    last = navigation(checkout)[-1]
    return list(last.get("More", []))


def lay_out(source: Path, checkout: Path = CHECKOUT) -> Path:
    """Put pages and what they link to into `source`/pages, the package into `source`/packages.

    Returns
    -------
    Path
        The folder with the pages.
    """
    shutil.rmtree(source, ignore_errors=True)
    to = source / "pages"
    for page in pages(checkout):
        text = (checkout / page).read_text(encoding="utf-8")
        # A forge reads the Markdown in such a block, the site where it is asked to.
        text = text.replace("<details>\n", "<details markdown>\n")
        for path, link in _links(checkout, page):
            whole = checkout / path
            if whole.is_dir():
                text = text.replace(f"]({link}", f"]({link.rstrip('/')}/index.md")
                _list_folder(whole, to / path)
            elif path.suffix != ".md":
                _link(whole, to / path)
        _write(to / page, text)
    for path in (checkout / ASSETS).iterdir():
        _link(path, to / ASSETS / path.name)
    for script, data in SCRIPTS.items():
        if (checkout / data).is_file():
            text = (checkout / data).read_text(encoding="utf-8")
            _write(to / script, f"window.{data.stem} = {text}")
    packages = source / "packages" / "forecache"
    for path in (*(checkout / "forecache").iterdir(), *(checkout / room for room in ROOMS)):
        if path.is_dir() or path.suffix == ".py":
            _link(path, packages / path.name)
    return to


def build(site: Path, source: Path, checkout: Path = CHECKOUT) -> None:
    """Build the site.

    Raises
    ------
    InputError
        The extra `docs` is not installed, a link leads nowhere, or a page loads something from
        elsewhere.
    """
    if importlib.util.find_spec("zensical") is None:
        needed = install_command("docs")
        raise InputError(f"the site needs zensical; `{needed}` installs it.")
    pages_folder = lay_out(source, checkout)
    settings = {
        "docs_dir": pages_folder.name,
        "site_dir": "site",
        "nav": navigation(checkout),
        "strict": True,
    }
    # Zensical reads and writes below the folder of its configuration only.
    config = source / "mkdocs.yml"
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in settings.items()]
    config.write_text(
        (checkout / "mkdocs.yml").read_text(encoding="utf-8") + "".join(lines), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", config.name],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InputError(f"the site was not built: {done.stdout}{done.stderr}")
    shutil.rmtree(site, ignore_errors=True)
    site.parent.mkdir(parents=True, exist_ok=True)
    (source / "site").rename(site)
    _search_in_files(site)
    if elsewhere := loads_from_elsewhere(site):
        raise InputError(f"the site loads from elsewhere: {', '.join(elsewhere)}")


_LOADS = re.compile(
    r"""<(?:script|img|iframe|source|embed|video|audio)\b[^>]*?\b(?:src|srcset)=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link\b(?![^>]*\brel=["']?(?:canonical|prev|next|alternate))[^>]*?\bhref=["']?(?:https?:)?//[^\s"'>]+"""
    r"""|url\(["']?(?:https?:)?//[^)]+|@import\s+["'](?:https?:)?//[^"']+"""
)


def loads_from_elsewhere(site: Path) -> list[str]:
    """Fonts, scripts, styles and pictures that a page of the site would load from another place."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            text = path.read_text(encoding="utf-8")
            found += [f"{path.relative_to(site)}: {match[0]}" for match in _LOADS.finditer(text)]
    return found


def _search_in_files(site: Path) -> None:
    """Search without network: the theme's script from elsewhere is replaced by one of the site."""
    for page in site.rglob("*.html"):
        to_worker = os.path.relpath(site / ASSETS / WORKER, page.parent)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(_THEMES_WORKER, to_worker), encoding="utf-8")


def _links(checkout: Path, page: Path) -> Iterator[tuple[Path, str]]:
    """Files and folders of the checkout that a page links to, and how it spells them."""
    if not (checkout / page).is_file():
        return
    for match in _LINK.finditer((checkout / page).read_text(encoding="utf-8")):
        target = checkout / page.parent / match[1]
        if target.exists():
            yield _inside(checkout, target), match[1]


def _inside(checkout: Path, path: Path) -> Path:
    return Path(os.path.normpath(path)).relative_to(checkout)


def _list_folder(folder: Path, to: Path) -> None:
    """A page that lists the files of a folder, which it puts beside."""
    lines = [f"# {folder.name}/", ""]
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            _link(path, to / name)
            lines.append(f"- [{name}]({name}){_about(path)}")
    _write(to / "index.md", "\n".join(lines) + "\n")


def _about(path: Path) -> str:
    """What the first line of a YAML file says, if it is a comment."""
    if path.suffix != ".yaml":
        return ""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return f": {first.removeprefix('#').strip()}" if first.startswith("#") else ""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _link(path: Path, to: Path) -> None:
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        to.symlink_to(path)


def main() -> int:
    """Entry point; returns the exit code."""
    try:
        build(CHECKOUT / "build" / "site", CHECKOUT / "build" / "site-source")
    except ForecacheError as error:
        say(f"evidence: error: {error}")
        return error.exit_code
    say(f"The site is {CHECKOUT / 'build' / 'site' / 'index.html'}")
    for page in unlisted():
        say(f"{LIST} does not list {page}, which the site has under More")
    return 0


if __name__ == "__main__":
    sys.exit(main())
