"""The documentation site: ``python -m tools.site`` builds it into ``build/site``.

The pages are the Markdown files of the repository. The navigation is the list of guides of
``docs/README.md``. A file that a page links to, as a module, lies beside the pages.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
SETTINGS = Path(__file__).with_name("site.toml")
STYLE = Path(__file__).with_name("site.css")
LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_SECTION = re.compile(r"^## (?P<name>.+)$", re.MULTILINE)


def build(folder: Path = BUILD) -> Path:
    """Build the site below ``folder``; the folder of its first page."""
    staged, site = folder / "site-pages", folder / "site"
    shutil.rmtree(staged, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    for page in pages():
        stage(page, staged)
    shutil.copyfile(STYLE, staged / STYLE.name)
    settings = folder / "zensical.toml"
    settings.write_text(configuration(staged, site), "utf-8")
    command = ["zensical", "build", "--clean", "--strict", "--config-file", str(settings)]
    subprocess.run([sys.executable, "-m", *command], check=True, cwd=folder)
    return site


def pages() -> list[Path]:
    """The pages of the site, by their paths in the repository."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")]
    return sorted(path.relative_to(ROOT) for path in found)


def stage(page: Path, staged: Path) -> None:
    """Copy a page, and the files that it links to."""
    text = (ROOT / page).read_text("utf-8")

    def relinked(found: re.Match[str]) -> str:
        target = linked(page, found["target"])
        if target is None:
            return found[0]
        if target.is_dir():
            inner = target / "README.md"
            if not inner.exists():
                return found["text"]  # nothing is shown for a folder without a page
            return f"{found['text']}({found['target'].rstrip('/')}/README.md)"
        if target.suffix != ".md":
            copy(target, staged)
        return found[0]

    place = staged / page
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(LINK.sub(relinked, text), "utf-8")


def linked(page: Path, target: str) -> Path | None:
    """The file or folder of the repository that a link of a page leads to; None: elsewhere."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None
    found = (ROOT / page.parent / target).resolve()
    return found if found.exists() and found.is_relative_to(ROOT) else None


def copy(file: Path, staged: Path) -> None:
    """Lay a file beside the pages, at its place in the repository."""
    place = staged / file.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)


def configuration(staged: Path, site: Path) -> str:
    """The generator's settings: ours, the folders and the navigation."""
    placed = (
        "[project]\n"
        f"docs_dir = {json.dumps(staged.name)}\n"
        f"site_dir = {json.dumps(site.name)}\n"
        f"nav = {inline(navigation())}\n"
    )
    return SETTINGS.read_text("utf-8").replace("[project]\n", placed, 1)


def inline(value: Any) -> str:  # noqa: ANN401 - what a navigation is made of
    """A value as TOML writes it in one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def navigation() -> list[Any]:
    """The sections of ``docs/README.md`` with the pages that each lists, in its order."""
    head, *parts = _SECTION.split((ROOT / "docs" / "README.md").read_text("utf-8"))
    del head
    sections = zip(parts[::2], parts[1::2], strict=True)
    return [
        {"offpath": "README.md"},
        {"All pages": "docs/README.md"},
        *({name: list(entries(text))} for name, text in sections),
        {"Changes": "CHANGELOG.md"},
        {"Contributing": ["CONTRIBUTING.md", "STYLE.md"]},
    ]


def entries(section: str) -> Iterator[Any]:
    """The pages of one section; the first page of a folder brings the folder's others."""
    for found in LINK.finditer(section):
        page = Path("docs") / found["target"]
        title = found["text"].strip("[]").replace("`", "")  # a menu has no code
        if page.name == "README.md":
            others = sorted((ROOT / page.parent).glob("*.md"))
            inner = [str(each.relative_to(ROOT)) for each in others if each.name != "README.md"]
            yield {title: [str(page), *inner]}
        else:
            yield {title[0].upper() + title[1:]: str(page)}


if __name__ == "__main__":
    print(build())
