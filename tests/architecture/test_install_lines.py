"""The install lines of the pages: who follows one can import and start what the page shows."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from typing import TYPE_CHECKING, Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.page import ROOT, blocks, pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
    "project"
]
PAGES: Final = sorted((ROOT / "docs" / "integrations").glob("*.md"))
_LINE = re.compile(r"pip install (?P<wanted>(?:'[^'`]+'|[\w.-]+)(?: (?:'[^'`]+'|[\w.-]+))*)")
_EXTRAS = re.compile(r"offpath(?:-[\w.-]+\.whl)?\[(?P<extras>[a-z,]+)\]")
_WHEEL = re.compile(r"'(?P<path>[\w./-]+\.whl)\[")
_IMPORT = re.compile(r"^\s*(?:from|import) (?P<name>\w+)", re.MULTILINE)
_IN_TEXT: Final = {
    "sqlalchemy.ext.asyncio": "greenlet",
    "sqlite+aiosqlite": "aiosqlite",
    "opentelemetry-instrument ": "opentelemetry-instrumentation",
    "uvicorn ": "uvicorn",
    "gunicorn ": "gunicorn",
    "hypercorn ": "hypercorn",
    "postgresql://": "psycopg",
}
"""What stands in code or commands, and the package without which it does not work."""
_READERS_OWN: Final = {
    "celery": {"celery"},
    "dashboard": {"django", "fastapi", "flask", "litestar", "a2wsgi", "werkzeug"},
}
"""Packages that the readers of a page have already: it is about their code."""


def wanted(text: str) -> set[str]:
    """The requirements that the install lines of a page name."""
    lines = [match["wanted"] for match in _LINE.finditer(text)]
    return {one.strip("'") for line in lines for one in line.split()}


def brought(requirements: Iterable[str]) -> set[str]:
    """The packages that an installer brings for them, all the way down."""
    found: set[tuple[str, frozenset[str]]] = set()
    todo = [Requirement(one) for one in requirements]
    while todo:
        one = todo.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key not in found:
            found.add(key)
            todo += _needed(one)
    return {name for name, _ in found}


def _needed(one: Requirement) -> Iterator[Requirement]:
    for text in _declared(one):
        needed = Requirement(text)
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in one.extras or {""}):
            yield needed


def _declared(one: Requirement) -> list[str]:
    if one.name == PROJECT["name"]:
        known = PROJECT["optional-dependencies"]
        return [*PROJECT["dependencies"], *(line for extra in one.extras for line in known[extra])]
    try:
        return requires(one.name) or []
    except PackageNotFoundError:  # not of this platform, or not brought by the environment here
        return []


def needed(page: Path) -> set[str]:
    """The packages that a page's code and commands use."""
    shown = [one for one in blocks(page.read_text("utf-8")) if one.kind in {"python", "py"}]
    commands = [one for one in blocks(page.read_text("utf-8")) if one.kind == "console"]
    homes = packages_distributions()
    local = {one.value.removesuffix(".py").partition("/")[0] for one in shown if one.value}
    names = {match["name"] for one in shown for match in _IMPORT.finditer(one.text)}
    names -= {*sys.stdlib_module_names, *local, "offpath"}
    packages = {homes[name][0] for name in names if name in homes}
    text = "\n".join(one.text for one in (*shown, *commands))
    packages |= {package for word, package in _IN_TEXT.items() if word in text}
    return {canonicalize_name(one) for one in packages}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_uses_is_brought_by_its_install_lines(page: Path) -> None:
    lines = wanted(page.read_text("utf-8"))
    assert needed(page) - brought(lines) - _READERS_OWN.get(page.stem, set()) == set()


def _extras(text: str) -> set[str]:
    return {one for match in _EXTRAS.finditer(text) for one in match["extras"].split(",")}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_extra_that_a_page_names_exists(page: Path) -> None:
    assert _extras(page.read_text("utf-8")) - {*PROJECT["optional-dependencies"]} == set()


@pytest.mark.parametrize("name", ["README.md", "docs/quickstart.md"])
def test_who_has_a_wheel_is_told_how_to_install_it(name: str) -> None:
    """The file is named as this version's is."""
    found = set(_WHEEL.findall((ROOT / name).read_text("utf-8")))
    assert found == {f"./{PROJECT['name']}-{PROJECT['version']}-py3-none-any.whl"}
