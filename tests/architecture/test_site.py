"""The documentation site: it holds every page, its links lead somewhere, it asks nobody else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tools import site

_LEADS = {"a": "href", "link": "href", "img": "src", "script": "src"}
_ELSEWHERE = re.compile(r"(?:https?:)?//")


class _Page(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.places.add(given["id"])
        if lead := given.get(_LEADS.get(tag, "")):
            self.links.append((tag, lead))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site.build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text("utf-8")) for path in built.rglob("*.html")}


def test_every_page_is_in_the_site(built: Path) -> None:
    expected = {path.with_suffix(".html") for path in site.pages() if path.name != "README.md"}
    assert {path for path in expected if not (built / path).exists()} == set()
    assert (built / "index.html").exists()
    assert (built / "docs" / "index.html").exists()
    assert (built / "search.json").stat().st_size > 100_000


def test_a_name_in_the_navigation_is_plain_text() -> None:
    (entry,) = site.entries("| [from `@ayepi/work`](integrations/ayepi-work.md) | which word |")
    assert entry == {"From @ayepi/work": "docs/integrations/ayepi-work.md"}


def test_every_guide_is_in_the_navigation(pages: dict[Path, _Page], built: Path) -> None:
    """The list of ``docs/README.md`` is the navigation of each page."""
    shown = {
        (built / "docs" / unquote(lead)).resolve()
        for _, lead in pages[built / "docs" / "quickstart.html"].links
        if not _ELSEWHERE.match(lead)
    }
    guides = [path for path in site.pages() if path.parts[0] == "docs" and path.name != "README.md"]
    assert [path for path in guides if built / path.with_suffix(".html") not in shown] == []


def test_no_link_is_dead(pages: dict[Path, _Page], built: Path) -> None:
    dead = [
        (path.relative_to(built).as_posix(), lead)
        for path, page in pages.items()
        for _, lead in page.links
        if not re.match(r"[a-z]+:", lead) and not _leads(pages, built, path, lead)
    ]
    assert sorted(set(dead)) == []


def _leads(pages: dict[Path, _Page], built: Path, page: Path, lead: str) -> bool:
    path, _, place = unquote(lead).partition("#")
    target = built / path[1:] if path.startswith("/") else (page.parent / path).resolve()
    target = page if not path else target / "index.html" if target.is_dir() else target
    return target.exists() and (not place or target not in pages or place in pages[target].places)


def test_a_page_loads_nothing_from_elsewhere(pages: dict[Path, _Page]) -> None:
    loaded = {
        lead for page in pages.values() for tag, lead in page.links if tag in {"img", "script"}
    }
    assert {lead for lead in loaded if _ELSEWHERE.match(lead)} == set()


def test_a_dead_link_is_seen(pages: dict[Path, _Page], built: Path) -> None:
    first = built / "index.html"
    assert not _leads(pages, built, first, "docs/nowhere.html")
    assert not _leads(pages, built, first, "docs/quickstart.html#nowhere")
    assert _leads(pages, built, first, "docs/quickstart.html")
