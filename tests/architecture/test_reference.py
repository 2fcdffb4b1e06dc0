"""The reference: a page is what the docstrings say now, and each public name has a meaning."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tools import reference

PAGES = reference.pages()


@pytest.mark.parametrize("path", sorted(PAGES), ids=lambda path: path.name)
def test_a_page_is_what_the_docstrings_say(path: Path) -> None:
    again = "run `python -m tools.reference`"
    assert path.exists(), again
    assert path.read_text("utf-8") == PAGES[path], again


def test_no_page_is_left_of_a_module_that_went() -> None:
    assert set(reference.FOLDER.glob("*.md")) == set(PAGES)


@pytest.mark.parametrize("name", reference.MODULES)
def test_each_public_name_is_there_with_its_meaning(name: str) -> None:
    page = PAGES[reference.FOLDER / f"{name}.md"]
    public = {each for each in importlib.import_module(name).__all__ if not each.startswith("_")}
    sections = dict(re.findall(r"^## (\w+)$\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == public
    assert [each for each, text in sections.items() if not said(text)] == []


def said(section: str) -> str:
    """What a section says of its name itself: before its members, without the signature."""
    return re.sub(r"```.*?```", "", section.partition("\n### ")[0], flags=re.DOTALL).strip()


def test_a_section_without_meaning_is_seen() -> None:
    assert said("\n```py\nname\n```\n\n### member\n\nIts meaning.\n") == ""
    assert said("\n```py\nname\n```\n\nIts meaning.\n") == "Its meaning."
